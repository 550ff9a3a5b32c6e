#include "core/base/text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/wide.h"

#define U63_MAX ((uint64_t)INT64_MAX)

/* Reads digits; returns how many were read, 0 when none or when the value passes U63_MAX. */
static size_t read_digits(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t n = 0;
    for (; text[n] >= '0' && text[n] <= '9'; n++) {
        uint64_t digit = (uint64_t)(text[n] - '0');
        if (value > (U63_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return n;
}

static int refuse(struct bh_diag *diag, const char *field, const char *text, const char *wanted)
{
    char quoted[64];
    return bh_err_set(diag, BH_E_INVALID_VALUE, field, "%s: \"%s\" is not %s",
                      field ? field : "value",
                      bh_text_escape(text, strlen(text), quoted, sizeof quoted), wanted);
}

int bh_text_u64(const char *text, const char *field, uint64_t maximum, uint64_t *ret_value,
                struct bh_diag *diag)
{
    uint64_t value = 0;
    size_t n = read_digits(text, &value);
    if (n == 0 || text[n] != '\0' || value > maximum) {
        char wanted[80];
        (void)snprintf(wanted, sizeof wanted, "a whole number from 0 to %llu",
                       (unsigned long long)maximum);
        return refuse(diag, field, text, wanted);
    }
    *ret_value = value;
    return BH_OK;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"KB", 1000},
    {"MB", 1000ull * 1000},
    {"GB", 1000ull * 1000 * 1000},
    {"TB", 1000ull * 1000 * 1000 * 1000},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
};

static const struct unit time_units[] = {
    {"ns", 1},          {"us", BH_NS_PER_US},       {"ms", BH_NS_PER_MS},
    {"s", BH_NS_PER_S}, {"m", 60ull * BH_NS_PER_S}, {"h", 3600ull * BH_NS_PER_S},
};

static uint64_t find_factor(const struct unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(units[i].name, name) == 0)
            return units[i].factor;
    }
    return 0;
}

int bh_text_size(const char *text, const char *field, uint64_t *ret_bytes, struct bh_diag *diag)
{
    static const char wanted[] = "a size; give bytes or a unit, like 6442450944, 6GiB or 1.5GB";
    uint64_t whole = 0;
    size_t n = read_digits(text, &whole);
    if (n == 0)
        return refuse(diag, field, text, wanted);
    uint64_t thousandths = 0;
    bool fraction = text[n] == '.';
    if (fraction) {
        uint64_t digits = 0;
        size_t m = read_digits(text + n + 1, &digits);
        if (m == 0 || m > 3)
            return refuse(diag, field, text, wanted);
        thousandths = m == 1 ? digits * 100 : m == 2 ? digits * 10 : digits;
        n += 1 + m;
    }
    uint64_t factor = find_factor(size_units, sizeof size_units / sizeof size_units[0], text + n);
    if (factor == 0 || (fraction && text[n] == '\0'))
        return refuse(diag, field, text, wanted);
    bh_u128 total = (bh_u128)whole * factor + (bh_u128)thousandths * factor / 1000;
    if (total > U63_MAX)
        return refuse(diag, field, text, "a size of at most 2^63 - 1 bytes");
    *ret_bytes = (uint64_t)total;
    return BH_OK;
}

int bh_text_duration(const char *text, const char *field, uint64_t *ret_ns, struct bh_diag *diag)
{
    static const char wanted[] =
        "a duration; give a whole number with a unit, like 50ms, 30s or 2h";
    uint64_t whole = 0;
    size_t n = read_digits(text, &whole);
    uint64_t factor =
        n ? find_factor(time_units, sizeof time_units / sizeof time_units[0], text + n) : 0;
    if (factor == 0)
        return refuse(diag, field, text, wanted);
    bh_u128 total = (bh_u128)whole * factor;
    if (total > U63_MAX)
        return refuse(diag, field, text, "a duration of at most 292 years");
    *ret_ns = (uint64_t)total;
    return BH_OK;
}

struct signal_name {
    int number;
    const char *name;
};

static const struct signal_name signal_names[] = {
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},     {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"},   {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},   {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
    {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},   {SIGTERM, "SIGTERM"}, {SIGCHLD, "SIGCHLD"},
    {SIGCONT, "SIGCONT"}, {SIGSTOP, "SIGSTOP"},   {SIGTSTP, "SIGTSTP"}, {SIGTTIN, "SIGTTIN"},
    {SIGTTOU, "SIGTTOU"}, {SIGXCPU, "SIGXCPU"},   {SIGXFSZ, "SIGXFSZ"}, {SIGVTALRM, "SIGVTALRM"},
    {SIGPROF, "SIGPROF"}, {SIGWINCH, "SIGWINCH"}, {SIGIO, "SIGIO"},     {SIGSYS, "SIGSYS"},
};

int bh_text_signal(const char *text, const char *field, int *ret_signal, struct bh_diag *diag)
{
    uint64_t number = 0;
    size_t n = read_digits(text, &number);
    if (n && text[n] == '\0' && number >= 1 && number <= 64) {
        *ret_signal = (int)number;
        return BH_OK;
    }
    for (size_t i = 0; i < sizeof signal_names / sizeof signal_names[0]; i++) {
        const char *name = signal_names[i].name;
        if (strcmp(text, name) == 0 || strcmp(text, name + 3) == 0) {
            *ret_signal = signal_names[i].number;
            return BH_OK;
        }
    }
    return refuse(diag, field, text, "a signal; give a name like SIGINT or a number from 1 to 64");
}

const char *bh_text_signal_name(int signal, char *buffer, size_t buffer_size)
{
    for (size_t i = 0; i < sizeof signal_names / sizeof signal_names[0]; i++) {
        if (signal_names[i].number == signal)
            return signal_names[i].name;
    }
    (void)snprintf(buffer, buffer_size, "SIG%d", signal);
    return buffer;
}

bool bh_text_is_job_id(const char *text)
{
    size_t n = 0;
    for (; text[n]; n++) {
        if (!((text[n] >= '0' && text[n] <= '9') || (text[n] >= 'a' && text[n] <= 'z')))
            return false;
    }
    return n == 20;
}

static bool is_name_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
}

int bh_text_job_name(const char *text, const char *field, struct bh_diag *diag)
{
    size_t n = 0;
    while (is_name_char(text[n]))
        n++;
    if (n == 0 || n > 64 || text[n] != '\0')
        return refuse(diag, field, text, "a name; give 1 to 64 of A-Z a-z 0-9 . _ -");
    if (bh_text_is_job_id(text))
        return refuse(diag, field, text,
                      "allowed: it looks like a job id (20 of 0-9 a-z); choose another name");
    return BH_OK;
}

/* Length of the UTF-8 sequence at s, 0 when invalid or cut. */
static size_t utf8_sequence(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80)
        return 1;
    size_t need = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || left < need)
        return 0;
    for (size_t i = 1; i < need; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return need;
}

bool bh_text_is_utf8(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < length;) {
        size_t n = utf8_sequence(s + i, length - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

const char *bh_text_format_bytes(uint64_t bytes, char *buffer, size_t buffer_size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (unit < 6 && (bytes >> (10 * (unit + 1))) != 0)
        unit++;
    uint64_t scale = 1ull << (10 * unit);
    uint64_t whole = bytes / scale;
    /* decimals so that three figures show; rounding down keeps a value below its limit below it */
    unsigned decimals = unit == 0 || whole >= 100 ? 0 : whole >= 10 ? 1 : 2;
    uint64_t power = decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
    uint64_t part = (uint64_t)((bh_u128)(bytes % scale) * power / scale);
    while (decimals > 0 && part % 10 == 0) {
        part /= 10;
        decimals--;
    }
    if (decimals == 0)
        (void)snprintf(buffer, buffer_size, "%llu %s", (unsigned long long)whole, units[unit]);
    else
        (void)snprintf(buffer, buffer_size, "%llu.%0*llu %s", (unsigned long long)whole,
                       (int)decimals, (unsigned long long)part, units[unit]);
    return buffer;
}

const char *bh_text_format_duration(uint64_t ns, char *buffer, size_t buffer_size)
{
    unsigned long long us = ns / BH_NS_PER_US;
    unsigned long long ms = ns / BH_NS_PER_MS;
    unsigned long long s = ns / BH_NS_PER_S;
    if (us == 0)
        (void)snprintf(buffer, buffer_size, "%llu ns", (unsigned long long)ns);
    else if (ms == 0)
        (void)snprintf(buffer, buffer_size, "%llu us", us);
    else if (s == 0)
        (void)snprintf(buffer, buffer_size, "%llu ms", ms);
    else if (s < 60)
        (void)snprintf(buffer, buffer_size, "%llu.%llu s", s, ms / 100 % 10);
    else if (s < 3600)
        (void)snprintf(buffer, buffer_size, "%llu min %llu s", s / 60, s % 60);
    else
        (void)snprintf(buffer, buffer_size, "%llu h %llu min", s / 3600, s / 60 % 60);
    return buffer;
}

const char *bh_text_escape(const char *text, size_t length, char *buffer, size_t buffer_size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)text;
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        size_t n = utf8_sequence(s + i, length - i);
        bool plain = n > 1 || (n == 1 && s[i] >= 0x20 && s[i] != 0x7f);
        size_t need = plain ? n : 4;
        if (used + need + 4 > buffer_size) { /* room for "..." and the end */
            for (size_t dots = 0; dots < 3 && used + 1 < buffer_size; dots++)
                buffer[used++] = '.';
            break;
        }
        if (plain) {
            memcpy(buffer + used, s + i, n);
            i += n;
        } else {
            const char hex[4] = {'\\', 'x', digits[s[i] >> 4], digits[s[i] & 15]};
            memcpy(buffer + used, hex, sizeof hex);
            i++;
        }
        used += need;
    }
    if (buffer_size)
        buffer[used < buffer_size ? used : buffer_size - 1] = '\0';
    return buffer;
}

const char *bh_text_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool bh_text_equal_secret(const void *left, const void *right, size_t length)
{
    const volatile unsigned char *a = left;
    const volatile unsigned char *b = right;
    unsigned char difference = 0;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return difference == 0;
}

void bh_text_hex(const unsigned char *bytes, size_t length, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * length] = '\0';
}
