"""How kernels run: compilation, threads and their scratch memory, transfers and the choice of a backend; it imports no kernel."""

# Before any module here: once torch is loaded, `pixtree` imports the kernels, and they import these modules.
import torch as torch
