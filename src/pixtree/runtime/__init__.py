"""What kernels run on: compilation, scratch memory, threads, and the choice of who computes; it knows no kernel."""
