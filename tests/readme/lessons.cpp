// All lessons, and what users of other tools write here, as one executable, `lessons NAME`: the headers, which are what
// takes long, are compiled once.
#include <cstdio>
#include <cstring>

#define main first_gradient
#include "docs/lessons/01_first_gradient.cpp"
#undef main
#define main loops_and_sums
#include "docs/lessons/02_loops_and_sums.cpp"
#undef main
#define main graphs_and_facts
#include "docs/lessons/03_graphs_and_facts.cpp"
#undef main
#define main time_loops
#include "docs/lessons/04_time_loops.cpp"
#undef main
#define main data_dependent
#include "docs/lessons/05_data_dependent.cpp"
#undef main
#define main attention_variant
#include "docs/lessons/06_attention.cpp"
#undef main
#define main functions_and_vectors
#include "docs/lessons/07_functions_and_vectors.cpp"
#undef main
#define main schedules
#include "docs/lessons/08_schedules.cpp"
#undef main
#define main more_derivatives
#include "docs/lessons/09_more_derivatives.cpp"
#undef main
#define main debugging
#include "docs/lessons/10_debugging.cpp"
#undef main
#define main gpu
#include "docs/lessons/11_gpu.cpp"
#undef main
#define main coming_from
#include "docs/coming_from.cpp"
#undef main

int main(int argc, char** argv) {
  const struct {
    const char* name;
    int (*run)();
  } lessons[] = {{"01_first_gradient", first_gradient},
                 {"02_loops_and_sums", loops_and_sums},
                 {"03_graphs_and_facts", graphs_and_facts},
                 {"04_time_loops", time_loops},
                 {"05_data_dependent", data_dependent},
                 {"06_attention", attention_variant},
                 {"07_functions_and_vectors", functions_and_vectors},
                 {"08_schedules", schedules},
                 {"09_more_derivatives", more_derivatives},
                 {"10_debugging", debugging},
                 {"11_gpu", gpu},
                 {"coming_from", coming_from}};
  for (const auto& lesson : lessons)
    if (argc == 2 && std::strcmp(argv[1], lesson.name) == 0) return lesson.run();
  for (const auto& lesson : lessons) std::fprintf(stderr, "lessons %s\n", lesson.name);
  return 2;
}
