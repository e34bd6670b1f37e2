/* A gradient in plain C: the stiffness and the damping of a spring are found from its track by gradient descent.
 *
 * damped.h and damped.cpp are made by the build from the program in ../own_program/main.cpp:
 *   loopgrad_add_gradient(fit damped ../own_program/main.cpp)
 * By hand: own_program emit damped --target openmp --out .
 */
#include "damped.h"

#include <stdio.h>
#include <stdlib.h>

enum { steps = 400 };

/* What the functions return has a text, with the array, the size or the line. */
static void require(int status) {
  if (status == damped_ok) return;
  fprintf(stderr, "%s\n", damped_error_text(status));
  exit(1);
}

/* All memory is the caller's: it is asked for once, for these sizes. */
static size_t tape_bytes, workspace_bytes;
static void *tape, *workspace;

static void run(double stiffness, double damping, const double* push, double* track) {
  require(damped_forward(steps, &stiffness, &damping, push, track, tape, tape_bytes, workspace, workspace_bytes, 0, 0));
}

int main(void) {
  static double push[steps], wanted[steps], track[steps], d_track[steps], d_push[steps];
  double stiffness = 3, damping = 1.5, d_stiffness = 0, d_damping = 0, loss = 0;
  int round, t;

  require(damped_memory(steps, 0, &tape_bytes, &workspace_bytes));
  tape = malloc(tape_bytes);
  workspace = malloc(workspace_bytes);
  for (t = 0; t < steps; ++t) push[t] = t < 100 ? 1 : 0;
  run(5, 0.5, push, wanted);

  for (round = 0; round < 3000; ++round) {
    run(stiffness, damping, push, track);
    loss = 0;
    for (t = 0; t < steps; ++t) {
      const double error = track[t] - wanted[t];
      loss += error * error / steps;
      d_track[t] = 2 * error / steps;
    }
    require(damped_backward(steps, &stiffness, &damping, &d_stiffness, &d_damping, d_push, d_track, tape, tape_bytes,
                            workspace, workspace_bytes, 0, 0));
    if (round % 1000 == 0) printf("round %4d: loss %.4f\n", round, loss);
    stiffness -= 2 * d_stiffness;
    damping -= 2 * d_damping;
  }
  printf("stiffness %.4f, damping %.4f\n", stiffness, damping);
  free(tape);
  free(workspace);
  return stiffness > 4.99 && stiffness < 5.01 && damping > 0.49 && damping < 0.51 ? 0 : 1;
}
