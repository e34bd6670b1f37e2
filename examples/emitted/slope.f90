! A gradient in Fortran: that of the mean position of a spring, beside differences of two runs.
! damped.cpp is made by the build from the program in ../own_program/main.cpp.
program slope
  use, intrinsic :: iso_c_binding
  implicit none

  interface
    integer(c_int) function damped_memory(n, threads, tape_bytes, workspace_bytes) bind(c)
      import
      integer(c_int64_t), value :: n
      integer(c_int), value :: threads
      integer(c_size_t) :: tape_bytes, workspace_bytes
    end function
    integer(c_int) function damped_forward(n, stiffness, damping, push, track, tape, tape_bytes, workspace, &
        workspace_bytes, threads, flags) bind(c)
      import
      integer(c_int64_t), value :: n
      real(c_double) :: stiffness, damping, push(*), track(*)
      integer(c_int8_t) :: tape(*), workspace(*)
      integer(c_size_t), value :: tape_bytes, workspace_bytes
      integer(c_int), value :: threads, flags
    end function
    integer(c_int) function damped_backward(n, stiffness, damping, d_stiffness, d_damping, d_push, d_track, tape, &
        tape_bytes, workspace, workspace_bytes, threads, flags) bind(c)
      import
      integer(c_int64_t), value :: n
      real(c_double) :: stiffness, damping, d_stiffness, d_damping, d_push(*), d_track(*)
      integer(c_int8_t) :: tape(*), workspace(*)
      integer(c_size_t), value :: tape_bytes, workspace_bytes
      integer(c_int), value :: threads, flags
    end function
  end interface

  integer(c_int64_t), parameter :: n = 300
  real(c_double), parameter :: step = 1e-6
  real(c_double) :: push(n) = 0.5, track(n), d_track(n) = 1d0 / n, d_push(n), d_stiffness, d_damping, difference
  integer(c_int8_t), allocatable :: tape(:), workspace(:)
  integer(c_size_t) :: tape_bytes, workspace_bytes

  call require(damped_memory(n, 0, tape_bytes, workspace_bytes))
  allocate (tape(tape_bytes), workspace(workspace_bytes))
  difference = (mean(2d0 + step, 0.3d0) - mean(2d0 - step, 0.3d0)) / (2 * step)
  print '(a, f10.6)', 'mean position ', mean(2d0, 0.3d0)
  call require(damped_backward(n, 2d0, 0.3d0, d_stiffness, d_damping, d_push, d_track, tape, tape_bytes, workspace, &
      workspace_bytes, 0, 0))
  print '(a, f10.6, a, f10.6)', 'slope by the gradient ', d_stiffness, ', by differences ', difference
  if (abs(d_stiffness - difference) > 1e-6) error stop 'they differ'

contains
  real(c_double) function mean(stiffness, damping)
    real(c_double), intent(in) :: stiffness, damping
    real(c_double) :: k, d
    k = stiffness
    d = damping
    call require(damped_forward(n, k, d, push, track, tape, tape_bytes, workspace, workspace_bytes, 0, 0))
    mean = sum(track) / n
  end function

  subroutine require(status)
    integer(c_int), intent(in) :: status
    if (status /= 0) error stop 'an emitted function failed'
  end subroutine
end program
