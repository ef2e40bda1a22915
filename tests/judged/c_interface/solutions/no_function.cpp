int kernel_of_mine(int a) { return a; }
