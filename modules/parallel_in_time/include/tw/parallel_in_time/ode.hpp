// SPDX-License-Identifier: Apache-2.0
// Multigrid in time for whatever advances by steps, u_{k+1} = step(t_k, dt, u_k): any ODE, and any state that can be put into tensors.
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

/// Numbers as a tensor, float64 [n], and back: a view of a contiguous one.
at::Tensor tensor_of(std::span<const double> numbers);
std::span<const double> numbers_of(const at::Tensor& tensor);

/// How a T travels as tensors, which may be floating-point or complex. There are at::Tensor, State, double, and vectors and arrays of doubles; for a
/// type of your own, specialise it.
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

/// The value at t + dt, from that at t. dt is that of any level: a multiple of the finest. A step returns equal results for equal arguments, which it
/// does not change, on any rank, and keeps the shapes of a state.
template <class F, class T>
concept OdeStep = OdeState<T> && requires(F& step, double t, double dt, const T& u) {
  { step(t, dt, u) } -> std::convertible_to<T>;
};

template <class T>
struct Options {
  double final_time = 1;             ///< T; point k lies at T k / N, unless `times` is set
  int levels = 2;                    ///< at most
  PerLevel<int64_t> coarsening = 4;  ///< c
  int64_t min_coarse = 2;            ///< a level has at least this many steps
  MgritOptions solver = {};
  MgritFinish finish = {};
  /// Where the iterations begin, at any t: the first one then does not skip its descent to the coarsest level. Empty: u_0 everywhere.
  std::function<T(double t)> guess = {};
  /// Where the points lie, N + 1 of them, ascending from any t; in place of final_time. Empty: all steps alike.
  std::vector<double> times = {};
  /// What a step costs, by step of the finest level, in any unit: ranks get blocks of equal cost. Empty: all alike.
  std::vector<double> costs = {};
};

/// The values at this rank's points first, first + spacing, ...: all with finish.store_all, else its C-points.
template <class T>
struct Trajectory {
  std::vector<T> values;
  int64_t first = 0;
  int64_t spacing = 1;
  T end;  ///< the value at the end, on every rank
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

/// Makes `steps` steps from `u0` on all ranks at once, without recording them for autograd. Collective. It talks on a duplicate of `comm`; see
/// Environment::free_communicators() for programs that call it thousands of times.
/// @param u0 the same on every rank. @param steps N, at least 1. @param step see OdeStep.
/// @throws ContractError on every rank for options that are wrong, or not the same everywhere; whatever `step` throws on the rank where it does, and
/// RevokedError on the others, while `comm` stays usable. An iteration that does not converge is not an error: see Report and OnDivergence.
template <OdeState T, class Step>
  requires OdeStep<Step, T>
Result<T> solve(const Communicator& comm, const T& u0, int64_t steps, Step&& step, const Options<T>& options = {}) {
  using Traits = StateTraits<T>;
  Options<State> of_tensors{options.final_time, options.levels, options.coarsening, options.min_coarse, options.solver, options.finish, {},
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
