#include "cli/app.h"

int main(int argc, char** argv) { return grove::cli::Main(argc, argv); }
