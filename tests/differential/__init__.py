"""The two stores, side by side: the same history must look the same on both."""
