"""The engine under seeds: actors chosen by chance, a clock moved by hand, checkers that go red."""
