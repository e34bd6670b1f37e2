static int step_forward_run(int64_t n_, float* __restrict x_, loopgrad_stack* home) {
  Stack stack(home);
  for (int64_t i_ = 0; i_ < n_; ++i_) {
    if (!stack.push<float>(x_[i_])) return loopgrad_out_of_memory;
    x_[i_] = 0.0f;
  }
  return loopgrad_ok;
}

extern "C" int step_forward_(const step_forward_args* args) {
  return step_forward_run(args->n_, args->x_, args->stack);
}

static int step_backward_run(int64_t n_, float* __restrict x_, loopgrad_stack* home) {
  Stack stack(home);
  for (int64_t i_ = n_ - 1; i_ >= 0; --i_) {
    if (!stack.pop(x_[i_])) return loopgrad_bad_stack;
  }
  return loopgrad_ok;
}

extern "C" int step_backward_(const step_backward_args* args) {
  return step_backward_run(args->n_, args->x_, args->stack);
}
