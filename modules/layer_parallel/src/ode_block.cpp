// SPDX-License-Identifier: Apache-2.0
#include "ode_block.hpp"

#include <algorithm>
#include <tw/autograd/autocast.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

#include "c_states.hpp"
#include "iterated_network.hpp"
#include "random_layer_seed.hpp"

namespace tw::layer_parallel {
namespace {

/// Number of layers on the grid: whole intervals, unless there is only one level.
int64_t grid_layers(int64_t layers, const LayerParallelOptions& options) {
  const int64_t inner = layers - options.front_layers - options.back_layers;
  TW_EXPECTS(inner >= 1, "a block of ", layers, " layers has no layers left between front_layers = ", options.front_layers,
             " and back_layers = ", options.back_layers, ": reduce these");
  return steps_on_grid(inner, level_options(options));
}

LevelPlan plan_of(const Block& block, int ranks, const LayerParallelOptions& options) {
  return level_plan(grid_layers(block.count, options), ranks, level_options(options), StepOwner::left);
}

/// The block's layers on `rank`, including those outside the grid.
LevelPlan::Range layers_of(const LevelPlan& plan, int rank, int64_t front, int64_t layers) {
  auto [begin, end] = plan.steps_of(0, rank);
  begin += front;
  end += front;
  if (plan.home(0, 0) == rank) begin = 0;
  if (plan.home(0, plan.level(0).steps) == rank) end = layers;
  return {begin, end};
}

std::vector<at::Tensor> stacks_of(const std::vector<StackedTensor>& tensors) {
  std::vector<at::Tensor> stacks;
  for (const StackedTensor& each : tensors) stacks.push_back(each.stack);
  return stacks;
}

/// Restores the modes of an earlier pass in the layers while it lives.
class ModeGuard {
 public:
  ModeGuard(LayerStack& stack, const LayerStack::Modes& modes) : stack_(stack), before_(stack.modes()) { stack_.set(modes); }
  ~ModeGuard() { stack_.set(before_); }
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  LayerStack& stack_;
  LayerStack::Modes before_;
};

}  // namespace

OdeBlock::OdeBlock(const Communicator& comm, const Communicator& reversed, const Block& block, const LayerParallelOptions& options, uint64_t stream,
                   PhaseObserver observer)
    : comm_(comm),
      reversed_comm_(reversed),
      options_(options),
      observer_(std::move(observer)),
      random_(block.options.random),
      random_seed_(random_seed(options.seed, 0)),
      stream_(stream),
      layers_(block.count),
      h_(options.final_time / static_cast<double>(block.count)),
      front_(options.front_layers),
      back_(block.count - options.front_layers - grid_layers(block.count, options)),
      plan_(plan_of(block, comm.size(), options)),
      reversed_plan_(mirrored(plan_)),
      stack_(block, layers_of(plan_, comm.rank(), front_, layers_), options.seed, stream),
      forward_(comm_, plan_, options.forward, options.guess, observer_),
      backward_(reversed_comm_, reversed_plan_, options.backward, options.guess, observer_) {}

void OdeBlock::set_iterations(Iterations iterations) {
  options_.forward.iterations = iterations.forward;
  options_.backward.iterations = iterations.backward;
  modelled_speed_up_.reset();
  forward_.set_iterations(iterations.forward);
  backward_.set_iterations(iterations.backward);
}

OdeBlock::Direction::Direction(const Communicator& comm, const LevelPlan& plan, MgritOptions options, Guess guess, const PhaseObserver& observer)
    : c_points_(plan.c_points_of(0, comm.rank())), guess_(guess) {
  const FinalRelaxation final_relaxation{.last_c_relaxation = true, .weighted = false};
  from_zero_ = std::make_unique<Mgrit>(comm, plan, options, final_relaxation);
  options.cycle.skip_downcycle = false;  // the first downcycle would ignore a guess
  from_guess_ = std::make_unique<Mgrit>(comm, plan, options, final_relaxation);
  for (Mgrit* solver : {from_zero_.get(), from_guess_.get()}) solver->observe(observer);
}

void OdeBlock::Direction::set_iterations(int iterations) {
  for (Mgrit* solver : {from_zero_.get(), from_guess_.get()}) solver->set_iterations(iterations);
}

// Empty with a single level, which has no C-points.
State OdeBlock::Direction::c_points(const Solution& solution) const {
  if (from_zero_->plan().levels() == 1) return {};
  return rows(solution.points, (c_points_.first - solution.first) / solution.spacing, c_points_.count, c_points_.spacing / solution.spacing);
}

bool OdeBlock::Direction::has_guess(const State& state) const {
  return std::ranges::equal(before_, state, [](const at::Tensor& before, const at::Tensor& now) {
    return before.sizes().slice(1) == now.sizes() && before.scalar_type() == now.scalar_type();
  });
}

Solution OdeBlock::Direction::solve(Propagator& propagator, const State& state) {
  Solution solution = has_guess(state) ? from_guess_->solve(propagator, state, before_) : from_zero_->solve(propagator, state);
  report_ = solution.report;
  if (guess_ == Guess::previous) before_ = report_.diverged ? State() : c_points(solution);
  return solution;
}

std::optional<Rank> OdeBlock::rank_of_layer(int64_t index) const {
  if (index < 0 || index >= layers_) return std::nullopt;
  return Rank(plan_.executor(0, std::clamp<int64_t>(index - front_, 0, plan_.level(0).steps - 1)));
}

Evolution OdeBlock::evolution(uint64_t call) { return {stack_, front_, h_, random_ && stack_.is_training(), random_seed_, stream_, call}; }

// Version counters of the layers' tensors are separate from those of the stacks.
SavedVersions OdeBlock::versions(const State& extras) const {
  SavedVersions versions;
  for (const StackedTensor& p : stack_.parameters()) {
    versions.add(p.name, p.stack);
    for (const at::Tensor& slice : p.slices) versions.add(p.name, slice);
  }
  for (const at::Tensor& tensor : extras) versions.add("extras", tensor);
  return versions;
}

State OdeBlock::forward(const State& input, const State& extras, const std::shared_ptr<Pass>& pass) {
  for (const at::Tensor& tensor : input) {
    TW_EXPECTS(tensor.is_floating_point() || tensor.is_complex(), "a state's tensors must be floating-point or complex, got ", tensor.scalar_type());
  }
  stack_.begin_pass();
  const auto call = static_cast<uint64_t>(number_of_calls());
  Tape* tape = pass ? &pass->tape : nullptr;
  if (tape != nullptr) tape->recompute = options_.recompute;
  if (tape != nullptr && !stack_.buffers().empty()) tape->buffers.emplace(stacks_of(stack_.buffers()));
  std::optional<TensorSnapshot> buffers;
  ForwardPropagator layers(evolution(call), extras, tape, [&] {
    if (buffers) buffers->restore();  // undoes the effect of earlier marches
  });
  const auto beside_the_grid = [&](const Runs& runs, const State& from, std::optional<size_t>* record) {
    const State to = layers.march(runs, 1, tape != nullptr, each(from, [](const at::Tensor& t) { return t.unsqueeze(0); }), {});
    if (tape != nullptr) *record = tape->records.size() - 1;
    return row(to, 0);
  };
  const int64_t steps = plan_.level(0).steps;
  State state = input;
  if (front_ > 0 && comm_.rank() == first_rank()) state = beside_the_grid({-front_, 1, front_, front_}, state, pass ? &pass->front : nullptr);
  if (!stack_.buffers().empty()) buffers.emplace(stacks_of(stack_.buffers()));
  const Solution solution = forward_.solve(layers, state);
  if (pass) {
    pass->call = call;
    pass->modes.emplace(stack_.modes());
    pass->versions = versions(extras);
    pass->tape.extras = extras;
    pass->tape.autocast = AutocastState::here();
    if (plan_.levels() > 1) pass->tape.c_states = exchange_c_states(comm_, plan_, solution, input);
  }
  if (comm_.rank() != last_rank()) return {};
  // A copy, because the caller may change it in place and the tape holds the original.
  return clone(back_ == 0 ? solution.end : beside_the_grid({steps, 1, back_, back_}, solution.end, pass ? &pass->back : nullptr));
}

State OdeBlock::backward(Pass& pass, const State& cotangent, const std::vector<at::Tensor>& gradients, bool retain) {
  pass.versions.expect_unchanged();
  pass.tape.retain = retain;
  const RestoreOnExit buffers(stacks_of(stack_.buffers()));
  if (pass.tape.buffers) pass.tape.buffers->restore();  // evaluation mode reads the buffers
  const ModeGuard mode(stack_, *pass.modes);
  AdjointPropagator layers(evolution(pass.call), pass.tape, gradients);
  const auto beside_the_grid = [&](size_t record, const State& state) {
    return row(layers.through(pass.tape.records[record], {.end = pass.tape.records[record].runs.length},
                              each(state, [](const at::Tensor& t) { return t.unsqueeze(0); }), true),
               0);
  };
  State state = cotangent;
  if (pass.back) state = beside_the_grid(*pass.back, state);
  const Solution solution = backward_.solve(layers, state);
  if (comm_.rank() != first_rank()) return {};
  return pass.front ? beside_the_grid(*pass.front, solution.end) : solution.end;
}

double OdeBlock::modelled_speed_up() {
  if (!modelled_speed_up_) {
    modelled_speed_up_ = layer_parallel::modelled_speed_up(plan_, options_.forward, options_.backward, front_ + back_);
  }
  return *modelled_speed_up_;
}

}  // namespace tw::layer_parallel
