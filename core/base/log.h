/* Log lines on stderr: "2026-01-02T03:04:05.678Z level component: text". Only super, server and
 * tools log; foreign text goes through bh_text_escape first. No argv, environment values or paths
 * of jobs (core/model/report.md, section 2, redaction). Usable without allocation; a line is cut at
 * 1 KiB. */
#ifndef BH_BASE_LOG_H
#define BH_BASE_LOG_H

enum bh_log_level {
    BH_LOG_ERROR,
    BH_LOG_WARNING,
    BH_LOG_INFO,
    BH_LOG_DEBUG,
};

/* component: static text, "bulkheadd". Before the first call: "bulkhead", BH_LOG_INFO. */
void bh_log_setup(const char *component, enum bh_log_level threshold);
void bh_log(enum bh_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
