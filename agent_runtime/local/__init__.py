"""Everything on one machine: servers as child processes, and the program that keeps them."""
