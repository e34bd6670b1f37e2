// The command line on the built-in programs.
#include "tools/programs/programs.h"

int main(int argc, char** argv) { return loopgrad::main_with(argc, argv, loopgrad::programs::all()); }
