// SPDX-License-Identifier: Apache-2.0
// Multigrid in time for any time-stepping scheme u_{k+1} = step(t_k, dt, u_k): any ODE, and any state that can be stored in tensors.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <span>
#include <tw/parallel_in_time/mgrit.hpp>
#include <utility>
#include <vector>

namespace tw::layer_parallel::mgrit {

/// tensor_of() copies numbers to a float64 tensor [n]; numbers_of() returns a view of such a tensor, which must be contiguous.
at::Tensor tensor_of(std::span<const double> numbers);
std::span<const double> numbers_of(const at::Tensor& tensor);

/// Converts a T to and from tensors, which may be floating-point or complex. Defined for at::Tensor, State, double, and vectors and arrays of
/// doubles; specialise it for your own type.
template <class T>
struct StateTraits;

template <>
struct StateTraits<at::Tensor> {
  static State tensors(const at::Tensor& value) { return {value}; }
  static at::Tensor value(const State& tensors) { return tensors.front(); }
};
template <>
struct StateTraits<State> {
  static State tensors(const State& value) { return value; }
  static State value(const State& tensors) { return tensors; }
};
template <>
struct StateTraits<double> {
  static State tensors(double value) { return {tensor_of({&value, 1})}; }
  static double value(const State& tensors) { return numbers_of(tensors.front()).front(); }
};
template <>
struct StateTraits<std::vector<double>> {
  static State tensors(const std::vector<double>& value) { return {tensor_of(value)}; }
  static std::vector<double> value(const State& tensors) {
    const auto numbers = numbers_of(tensors.front());
    return {numbers.begin(), numbers.end()};
  }
};
template <size_t n>
struct StateTraits<std::array<double, n>> {
  static State tensors(const std::array<double, n>& value) { return {tensor_of(value)}; }
  static std::array<double, n> value(const State& tensors) {
    std::array<double, n> value;
    std::ranges::copy(numbers_of(tensors.front()), value.begin());
    return value;
  }
};

template <class T>
concept OdeState = requires(const T& value, const State& tensors) {
  { StateTraits<T>::tensors(value) } -> std::same_as<State>;
  { StateTraits<T>::value(tensors) } -> std::same_as<T>;
};

/// A callable that returns the value at t + dt from the value u at t. dt is the step size of some level: one or more steps of the finest level. On
/// every rank, the callable must return equal results for equal arguments. It must not change its arguments, and must keep the shapes and dtypes of
/// the state.
template <class F, class T>
concept OdeStep = OdeState<T> && requires(F& step, double t, double dt, const T& u) {
  { step(t, dt, u) } -> std::convertible_to<T>;
};

template <class T>
struct Options {
  double final_time = 1;             ///< final time T; with N steps, point k is at time k * T / N, unless `times` is set
  int levels = 2;                    ///< maximum number of levels; 1: serial
  PerLevel<int64_t> coarsening = 4;  ///< steps of a level per step of the next coarser one
  int64_t min_coarse = 2;            ///< minimum number of steps of a coarse level
  MgritOptions solver = {};
  FinalRelaxation final_relaxation = {};
  /// Returns the initial guess at time t; the first iteration then ignores CycleOptions::skip_downcycle. Empty: u_0 everywhere.
  std::function<T(double t)> guess = {};
  /// Times of the N + 1 points, strictly ascending; the first may be any time. They replace final_time. Empty: equal steps from 0 to final_time.
  std::vector<double> times = {};
  /// Cost of each step of the finest level, in any unit; ranks get blocks of about equal cost. Empty: equal costs.
  std::vector<double> costs = {};
};

/// The values at the points first, first + spacing, ... of this rank. These are all its points with final_relaxation.store_all or if the solution is
/// serial, otherwise its C-points.
template <class T>
struct Trajectory {
  std::vector<T> values;
  int64_t first = 0;
  int64_t spacing = 1;
  T end;  ///< the value at the last point, on every rank
};

template <class T>
struct Result {
  Trajectory<T> u;
  Report report;
};

namespace detail {
Result<State> solve(const Communicator& comm, const State& u0, int64_t steps, std::function<State(double, double, const State&)> step,
                    const Options<State>& options);
}

/// Makes `steps` steps from `u0` on all ranks in parallel, without recording them for autograd. Collective. It communicates on a duplicate of `comm`;
/// see Environment::free_communicators() if you call it thousands of times.
/// @param u0 the same on every rank. @param steps N, at least 1. @param step see OdeStep.
/// @throws ContractError on every rank if options are invalid or differ between ranks. If `step` throws, its rank throws the same exception, and the
/// others throw RevokedError; `comm` stays usable. Failure to converge is not an error: see Report and OnDivergence.
template <OdeState T, class Step>
  requires OdeStep<Step, T>
Result<T> solve(const Communicator& comm, const T& u0, int64_t steps, Step&& step, const Options<T>& options = {}) {
  using Traits = StateTraits<T>;
  Options<State> of_tensors{options.final_time, options.levels, options.coarsening, options.min_coarse, options.solver, options.final_relaxation, {},
                            options.times,      options.costs};
  if (options.guess) of_tensors.guess = [&](double t) { return Traits::tensors(options.guess(t)); };
  auto [u, report] = detail::solve(
      comm, Traits::tensors(u0), steps,
      [&](double t, double dt, const State& from) -> State { return Traits::tensors(step(t, dt, Traits::value(from))); }, of_tensors);
  std::vector<T> values;
  values.reserve(u.values.size());
  for (const State& value : u.values) values.push_back(Traits::value(value));
  return {{std::move(values), u.first, u.spacing, Traits::value(u.end)}, std::move(report)};
}

}  // namespace tw::layer_parallel::mgrit
