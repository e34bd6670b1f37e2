// The commands of `loopgrad` for a program of one's own: link loopgrad::main and register it.
//
//   own_program explain damped
//   own_program check damped
//   own_program compare damped --size n=100000
#include <loopgrad/loopgrad.h>
#include <loopgrad/main.h>

namespace lg = loopgrad;

// A damped spring, one explicit Euler step after another; `track` keeps every position.
lg::Program damped_spring() {
  lg::ProgramBuilder p("damped");
  auto n = p.size("n");
  auto stiffness = p.input<double>("stiffness", {});
  auto damping = p.input<double>("damping", {});
  auto push = p.input<double>("push", {n});
  auto track = p.output<double>("track", {n});
  const double dt = 0.01;
  auto position = p.scalar<double>("position");
  auto speed = p.scalar<double>("speed");
  position = 1.0;
  speed = 0.0;
  for (auto t : p.loop("t", 0, n)) {
    speed += dt * (push(t) - stiffness() * position - damping() * speed);
    position += dt * speed;
    track(t) = position;
  }
  return p.build();
}

int main(int argc, char** argv) {
  return lg::main_with(argc, argv,
                       {{"damped", "a damped spring, explicit Euler", damped_spring, {{"n", 100000}}, {{"n", 29}}}});
}
