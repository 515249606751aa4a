// SPDX-License-Identifier: Apache-2.0
// Dependent time steps, computed by all ranks in parallel: multigrid in time (MGRIT) solves three differential equations. You write only the step,
// for any dt. Each rank works on its own block of time, and coarse levels correct the result.
//
// Build:   cmake --build build/release --target 20_parallel_ode
// Run:     mpirun -n 2 build/release/bin/20_parallel_ode
// Expect:  the residual of each iteration, followed by a line for each problem, on any number of ranks:
//          Dahlquist: 7 iterations, residual 7.9e-10; 6.3e-11 from the serial solution
//          heat: 9 iterations, residual 2.7e-09; 1.5e-10 from the serial solution
//          Lorenz: 5 iterations, residual 1.2e-10; 5.2e-13 from the serial solution     (the last digits depend on rounding)
#include <torch/torch.h>

#include <cmath>
#include <iostream>
#include <tw/parallel_in_time.hpp>

namespace mgrit = tw::layer_parallel::mgrit;

/// Sequential time steps, as usual.
template <class T, class Step>
T in_series(T u, int64_t steps, double final_time, const Step& step) {
  const double dt = final_time / static_cast<double>(steps);
  for (int64_t k = 0; k < steps; ++k) u = step(static_cast<double>(k) * dt, dt, u);
  return u;
}

void print(const tw::Communicator& comm, const char* name, const tw::layer_parallel::Report& report, double error) {
  if (comm.rank() != 0) return;
  for (const auto& residual : report.residuals) {
    if (residual) std::cout << "  residual " << *residual << '\n';  // the first iteration makes a prediction and has no residual
  }
  std::cout << name << ": " << report.iterations << " iterations, residual " << *report.residuals.back() << "; " << error
            << " from the serial solution" << std::endl;
}

/// u' = -u with a scalar u, by backward Euler.
void dahlquist(const tw::Communicator& comm) {
  constexpr int64_t steps = 1024;
  const auto step = [](double, double dt, double u) { return u / (1 + dt); };
  const auto [u, report] =
      mgrit::solve(comm, 1.0, steps, step, {.final_time = 8, .levels = 3, .coarsening = 4, .solver = {.iterations = 20, .tolerance = 1e-9}});
  print(comm, "Dahlquist", report, std::abs(u.end - in_series(1.0, steps, 8, step)));
}

/// u_t = u_xx on a rod whose ends are held at 0, with a tensor u, by backward Euler. Each step solves (1 + dt A) u_new = u in the basis of sines, A's
/// eigenvectors.
void heat(const tw::Communicator& comm) {
  constexpr int64_t steps = 256;
  constexpr int64_t inner = 63;
  const at::Tensor j = torch::arange(1, inner + 1, torch::kDouble) / (inner + 1);
  const at::Tensor sines = std::sqrt(2.0 / (inner + 1)) * torch::sin(M_PI * (inner + 1) * torch::outer(j, j));
  const at::Tensor eigenvalues = torch::square(2 * (inner + 1) * torch::sin(M_PI * j / 2));
  const auto step = [&](double, double dt, const at::Tensor& u) { return sines.mv(sines.mv(u) / (1 + dt * eigenvalues)); };
  const at::Tensor u0 = torch::exp(-100 * torch::square(j - 0.3));
  const auto [u, report] =
      mgrit::solve(comm, u0, steps, step, {.final_time = 0.2, .levels = 3, .coarsening = 4, .solver = {.iterations = 20, .tolerance = 1e-8}});
  print(comm, "heat", report, (u.end - in_series(u0, steps, 0.2, step)).norm().item<double>());
}

/// A state of three numbers, by the classical Runge-Kutta method. The time is short, because chaos amplifies every error, including that of
/// iterations.
void lorenz(const tw::Communicator& comm) {
  using Point = std::array<double, 3>;
  constexpr int64_t steps = 512;
  const auto slope = [](const Point& u) { return Point{10 * (u[1] - u[0]), u[0] * (28 - u[2]) - u[1], u[0] * u[1] - 8.0 / 3 * u[2]}; };
  const auto moved = [](const Point& u, double dt, const Point& k) { return Point{u[0] + dt * k[0], u[1] + dt * k[1], u[2] + dt * k[2]}; };
  const auto step = [&](double, double dt, const Point& u) {
    const Point a = slope(u);
    const Point b = slope(moved(u, dt / 2, a));
    const Point c = slope(moved(u, dt / 2, b));
    const Point d = slope(moved(u, dt, c));
    return moved(moved(moved(moved(u, dt / 6, a), dt / 3, b), dt / 3, c), dt / 6, d);
  };
  const Point u0{1, 1, 20};
  const auto [u, report] =
      mgrit::solve(comm, u0, steps, step, {.final_time = 2, .levels = 2, .coarsening = 8, .solver = {.iterations = 20, .tolerance = 1e-9}});
  const Point serial = in_series(u0, steps, 2, step);
  print(comm, "Lorenz", report, std::hypot(u.end[0] - serial[0], u.end[1] - serial[1], u.end[2] - serial[2]));
}

int main() {
  const tw::Environment mpi;
  std::cout.precision(2);
  dahlquist(mpi.world());
  heat(mpi.world());
  lorenz(mpi.world());
}
