static int run_step_forward(int64_t n, float* __restrict x, loopgrad_stack* home) {
  Stack stack(home);
  for (int64_t i = 0; i < n; ++i) {
    if (!stack.push<float>(x[i])) return loopgrad_out_of_memory;
    x[i] = 0.0f;
  }
  return loopgrad_ok;
}

extern "C" int step_forward(const step_forward_args* args) {
  return run_step_forward(args->n, args->x, args->stack);
}

static int run_step_backward(int64_t n, float* __restrict x, loopgrad_stack* home) {
  Stack stack(home);
  for (int64_t i = n - 1; i >= 0; --i) {
    if (!stack.pop(x[i])) return loopgrad_bad_stack;
  }
  return loopgrad_ok;
}

extern "C" int step_backward(const step_backward_args* args) {
  return run_step_backward(args->n, args->x, args->stack);
}
