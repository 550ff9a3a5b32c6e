"""At least a million allocator events as fast as one thread can make them; prints how many arrays were made."""
import mlx.core as mx

COUNT = 520000  # an allocation and a free each


def main():
    value = [1.0]
    for _ in range(COUNT):
        mx.array(value)
    print(COUNT)


main()
