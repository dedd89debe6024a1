"""``python -m fedica``: the program, also where its folder is not on the path."""

from fedica.program import main

if __name__ == "__main__":
    main()
