"""The ground that kernels stand on: compilation, scratch memory, threads and the choice of a backend; it knows no kernel."""
