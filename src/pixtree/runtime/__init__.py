"""How kernels run: compilation, threads and their scratch memory, transfers and the choice of a backend; it imports no kernel."""
