// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/recurrent.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/autograd_node.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <tw/tensor/content_hash.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "iterated_network.hpp"
#include "pass_communicators.hpp"
#include "time_block.hpp"

namespace tw::layer_parallel {
namespace {

/// Options for the levels of the grid; Newton's method has one level.
LevelOptions grid_options(const RecurrentOptions& options) {
  LevelOptions levels = level_options(options);
  if (options.solver != TimeSolver::mgrit) levels.levels = 1;
  return levels;
}

std::optional<JacobianKind> newton_of(TimeSolver solver) {
  if (solver == TimeSolver::mgrit) return std::nullopt;
  return solver == TimeSolver::newton ? JacobianKind::full : JacobianKind::diagonal;
}

std::string described(const at::Tensor& tensor) { return describe({tensor}); }

/// Sets the biases of the gates that keep the state: sigmoid(b) = 1 - 1/t for times t uniform between 2 and the longest memory. The input gates of an
/// LSTM get the complement.
void remember(const at::Tensor& bias, const RecurrentOptions& options) {
  const at::NoGradGuard no_grad;
  const int64_t width = options.hidden_size;
  const at::Tensor stays = at::empty({width}, bias.options()).uniform_(1, static_cast<double>(options.longest_memory) - 1).log();
  bias.narrow(0, width, width).copy_(stays);
  if (options.cell == Cell::lstm) bias.narrow(0, 0, width).copy_(-stays);
}

/// A matrix [rows, width] from any leading dimensions.
at::Tensor flat(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }

}  // namespace

void visit_training(RecurrentOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, CoarseCell>> coarse{{"frozen_gates", CoarseCell::frozen_gates}, {"implicit", CoarseCell::implicit}};
  const std::vector<std::pair<std::string, TimeSolver>> solvers{
      {"mgrit", TimeSolver::mgrit}, {"newton", TimeSolver::newton}, {"quasi_newton", TimeSolver::quasi_newton}};
  visitor.field("solver", options.solver, solvers,
                {.meaning = "mgrit: multigrid in time; newton, quasi_newton: Newton's method for all steps at once, for small states"});
  visitor.field("coarse_cell", options.coarse_cell, coarse, {.meaning = "cell of a step over several time steps"});
}

void visit(RecurrentOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Cell>> cells{{"rnn", Cell::rnn}, {"gru", Cell::gru}, {"lstm", Cell::lstm}};
  visitor.field("cell", options.cell, cells, {.meaning = "kind of cell, as in torch::nn"});
  visitor.field("input_size", options.input_size, at_least(1), {.meaning = "features of the input of a time step"});
  visitor.field("hidden_size", options.hidden_size, at_least(1), {.meaning = "features of the state"});
  visitor.field("layers", options.layers, at_least(1), {.meaning = "number of stacked layers"});
  visitor.field("bias", options.bias, {.meaning = "whether cells have the biases b_ih and b_hh"});
  visitor.field("bidirectional", options.bidirectional, {.meaning = "run each layer in both directions of time"});
  visit_training(options, visitor);
  visit_levels(options, visitor);
  visitor.group("forward", options.forward);
  visitor.group("backward", options.backward);
  visitor.field("longest_memory", options.longest_memory, at_least(0),
                {.meaning = "longest memory of the initial weights of a gru or an lstm; 0: weights as torch::nn draws them", .unit = "steps"});
  visitor.field("seed", options.seed, Bounds{}, {.meaning = "seed of initial values"});
}

void RecurrentOptions::validate() const {
  expect_none(out_of_bounds(*this));
  level_options(*this).validate();
  forward.validate();
  backward.validate();
  TW_EXPECTS((forward.iterations == 0) == (backward.iterations == 0), "either both directions must be serial, with 0 iterations, or neither");
  TW_EXPECTS(longest_memory == 0 || (longest_memory > 2 && bias && cell != Cell::rnn),
             "longest_memory must be more than 2 steps, and needs a gru or an lstm with biases");
}

class Recurrent::Impl {
 public:
  Impl(const Communicator& of, const RecurrentOptions& chosen) : comms(of), options(chosen) {
    expect_same_on_all_ranks(comms.lasting(), "the options of a Recurrent", value_lines(options));
    options.validate();
    for (int64_t layer = 0; layer < options.layers; ++layer) {
      for (int64_t direction = 0; direction < directions(); ++direction) report.blocks.emplace_back().name = suffix(layer, direction);
    }
  }

  int64_t directions() const { return options.bidirectional ? 2 : 1; }
  /// The suffix that torch::nn uses in parameter names.
  static std::string suffix(int64_t layer, int64_t direction) { return concat('l', layer, direction == 1 ? "_reverse" : ""); }
  void set_iterations(Iterations iterations);

  /// The grids of both directions of time.
  struct Grids {
    std::unique_ptr<TimeGrid> onward;
    std::unique_ptr<TimeGrid> back;
  };
  const Grids& grids(int64_t steps) {
    Grids& grids = all_grids_[steps];
    if (grids.onward) return grids;
    Grids found;
    std::vector<int64_t> cuts = cuts_of(steps);
    const auto tell = [this](const char* name, int level, auto begin, auto end) {
      if (observer) observer(name, level, begin, end);
    };
    found.onward = std::make_unique<TimeGrid>(comms.onward(), comms.reversed(), cuts, grid_options(options), options.forward, options.backward,
                                              newton_of(options.solver), tell);
    if (!options.bidirectional) return grids = std::move(found);
    std::reverse(cuts.begin(), cuts.end());
    for (int64_t& cut : cuts) cut = steps - cut;
    found.back = std::make_unique<TimeGrid>(comms.reversed(), comms.onward(), cuts, grid_options(options), options.forward, options.backward,
                                            newton_of(options.solver), tell);
    return grids = std::move(found);
  }
  /// First steps of the ranks for a sequence, and its end. Local.
  std::vector<int64_t> cuts_of(int64_t steps) const {
    TW_EXPECTS(steps >= 1, "a sequence must have at least one step, got ", steps);
    return TimeGrid::cuts_of(steps, comms.lasting().size(), grid_options(options));
  }
  /// Checks this rank's arguments for a pass. @return what must be equal on all ranks
  std::vector<std::string> checked(const at::Tensor& block, int64_t steps, const RecurrentStart& start) const;

  struct LayerWeights {
    at::Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  };
  struct LayerOutput {
    at::Tensor outputs;
    State end;
  };
  LayerOutput run(TimeGrid& grid, const LayerWeights& weights, const at::Tensor& block, const State& start, const at::Tensor& lengths, size_t index);

  PassCommunicators comms;
  RecurrentOptions options;
  NetworkReport report;
  PhaseObserver observer;

 private:
  at::Tensor passes(const TimeGrid& grid, const at::Tensor& lengths, const at::Tensor& like) const;

  std::map<int64_t, Grids> all_grids_;  // by steps
};

void Recurrent::Impl::set_iterations(Iterations iterations) {
  expect_iterations(comms.lasting(), iterations);
  options.forward.iterations = iterations.forward;
  options.backward.iterations = iterations.backward;
  for (auto& [steps, grids] : all_grids_) {
    for (TimeGrid* grid : {grids.onward.get(), grids.back.get()}) {
      if (grid == nullptr) continue;
      grid->set_iterations(iterations);
    }
  }
}

// 1 where time passes, [steps, batch, 1]; undefined: everywhere. On a grid that runs backwards in time, padding comes before the sequences.
at::Tensor Recurrent::Impl::passes(const TimeGrid& grid, const at::Tensor& lengths, const at::Tensor& like) const {
  const auto [begin, end] = grid.block();
  const bool goes_back = &grid.comm() == &comms.reversed();
  if (!lengths.defined() && grid.plan().level(0).steps == grid.steps()) return {};  // the same on all ranks
  at::Tensor time = at::arange(begin, end, at::kLong).view({-1, 1});
  const at::Tensor of_steps = time.lt(grid.steps());
  if (goes_back) time = grid.steps() - 1 - time;
  const at::Tensor within = lengths.defined() ? time.lt(lengths.view({1, -1})).logical_and(of_steps) : of_steps.expand({end - begin, like.size(1)});
  return within.to(like.options()).unsqueeze(-1);
}

// `block` and `outputs` are in the order of the grid.
Recurrent::Impl::LayerOutput Recurrent::Impl::run(TimeGrid& grid, const LayerWeights& weights, const at::Tensor& block, const State& start,
                                                  const at::Tensor& lengths, size_t index) {
  const auto pass = std::make_shared<TimePass>();
  const bool recorded = at::GradMode::is_enabled();
  const Rank first(grid.plan().home(0, 0));
  const Rank last(grid.plan().home(0, grid.plan().level(0).steps));
  std::vector<at::Tensor> inputs{block, weights.weight_ih, weights.weight_hh};
  if (options.bias) inputs.insert(inputs.end(), {weights.bias_ih, weights.bias_hh});
  inputs.insert(inputs.end(), start.begin(), start.end());
  const int64_t steps_here = block.size(0);
  const auto forward = [&, pass] {
    return revoke_on_exception(comms.onward(), [&] {
      const int64_t fill = grid.block().end - grid.block().begin - steps_here;
      at::Tensor products = at::linear(block, weights.weight_ih, weights.bias_ih);
      if (fill > 0) products = at::constant_pad_nd(products, {0, 0, 0, 0, 0, fill});
      pass->weights = {options.cell, weights.weight_hh.detach(), options.bias ? weights.bias_hh.detach() : at::Tensor()};
      pass->coarse = options.coarse_cell;
      const std::string suffix = '_' + report.blocks[index].name;
      pass->versions.add("block", block);
      pass->versions.add("weight_ih" + suffix, weights.weight_ih);
      pass->versions.add("weight_hh" + suffix, weights.weight_hh);
      pass->versions.add("bias_hh" + suffix, weights.bias_hh);
      pass->inputs = products;
      pass->passes = passes(grid, lengths, products);
      TimeResult result = run_forward(grid, *pass, detached(start), recorded);
      report.blocks[index].forward = result.report;
      report.blocks[index].modelled_speed_up = grid.modelled_speed_up();
      const at::Tensor outputs = pass->passes.defined() ? result.outputs * pass->passes : result.outputs;
      std::vector<at::Tensor> all{outputs.narrow(0, 0, steps_here)};
      for (size_t i = 0; i < start.size(); ++i) {
        const at::Tensor end = int{grid.comm().rank()} == int{last} ? result.end[i].clone(at::MemoryFormat::Contiguous)
                                                                    : at::empty(start[i].sizes(), start[i].options());
        broadcast(grid.comm(), end, last);
        all.push_back(end);
      }
      if (!recorded) *pass = {};
      return all;
    });
  };
  const auto backward = [this, &grid, pass, block = block.detach(), weight_ih = weights.weight_ih.detach(), first, steps_here, index,
                         biased = options.bias](const std::vector<at::Tensor>& cotangents) {
    const Stopwatch watch;
    return revoke_on_exception(comms.onward(), [&] {
      pass->versions.expect_unchanged();
      TW_EXPECTS(!at::GradMode::is_enabled(), "gradients of parallel recurrent layers cannot be differentiated again: create_graph must be false");
      const int64_t fill = pass->inputs.size(0) - steps_here;
      at::Tensor outputs = cotangents[0];
      if (fill > 0) outputs = at::constant_pad_nd(outputs, {0, 0, 0, 0, 0, fill});
      if (pass->passes.defined()) outputs = outputs * pass->passes;
      const TimeGradient gradient = run_backward(grid, *pass, outputs, State(cotangents.begin() + 1, cotangents.end()));
      report.blocks[index].backward = gradient.report;
      const at::Tensor of_inputs = gradient.of_inputs.narrow(0, 0, steps_here);
      const at::Tensor of_products = flat(gradient.of_products);
      const at::Tensor rows = flat(of_inputs);
      std::vector<at::Tensor> result{of_inputs.matmul(weight_ih), rows.t().matmul(flat(block)), at::zeros_like(pass->weights.weight)};
      if (!pass->kept.empty()) result[2] = of_products.t().matmul(flat(pass->kept[0]));
      if (biased) result.insert(result.end(), {rows.sum(0), of_products.sum(0)});
      const State like = pass->like;
      for (size_t i = 0; i < like.size(); ++i) {
        const at::Tensor of_start = int{grid.comm().rank()} == int{first} ? gradient.of_origin[i].clone(at::MemoryFormat::Contiguous)
                                                                          : at::empty(like[i].sizes(), like[i].options());
        broadcast(grid.comm(), of_start, first);
        result.push_back(of_start);
      }
      for (size_t i = 1; i < result.size() - like.size(); ++i) {
        result[i] = result[i].contiguous();
        allreduce(grid.comm(), result[i], ReduceOp::sum);
      }
      report.backward += watch.elapsed();
      return result;
    });
  };
  const std::vector<at::Tensor> made = make_node(inputs, {forward, backward});
  return {made[0], State(made.begin() + 1, made.end())};
}

Recurrent::Recurrent(const Communicator& comm, const RecurrentOptions& options) : impl_(std::make_unique<Impl>(comm, options)) {
  const int64_t rows = gates_of(options.cell) * options.hidden_size;
  const double bound = 1 / std::sqrt(static_cast<double>(options.hidden_size));
  GeneratorGuard generator;
  generator.seed(options.seed, 0);
  const auto add = [&](const std::string& name, at::IntArrayRef shape) {
    const at::NoGradGuard no_grad;
    register_parameter(name, at::empty(shape).uniform_(-bound, bound));
  };
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    for (int64_t direction = 0; direction < impl_->directions(); ++direction) {
      const std::string suffix = '_' + Impl::suffix(layer, direction);
      add("weight_ih" + suffix, {rows, layer == 0 ? options.input_size : impl_->directions() * options.hidden_size});
      add("weight_hh" + suffix, {rows, options.hidden_size});
      if (!options.bias) continue;
      add("bias_ih" + suffix, {rows});
      add("bias_hh" + suffix, {rows});
      if (options.longest_memory > 0) remember(named_parameters()["bias_ih" + suffix], options);
    }
  }
}

Recurrent::~Recurrent() = default;

Recurrent::Range Recurrent::block(int64_t steps) const {
  const std::vector<int64_t> cuts = impl_->cuts_of(steps);
  const auto rank = static_cast<size_t>(int{comm().rank()});
  return {cuts[rank], cuts[rank + 1]};
}

std::vector<std::string> Recurrent::Impl::checked(const at::Tensor& block, int64_t steps, const RecurrentStart& start) const {
  const RecurrentOptions& o = options;
  TW_EXPECTS(!AutocastState::here().is_on(),
             "recurrent layers in parallel over time do not support autocast: it would round away the small differences by which their "
             "iterations correct states. Compute in float32");
  const std::vector<int64_t> cuts = cuts_of(steps);
  const auto rank = static_cast<size_t>(int{comms.lasting().rank()});
  const int64_t here = cuts[rank + 1] - cuts[rank];
  TW_EXPECTS(block.defined() && block.dim() == 3 && block.size(0) == here && block.size(2) == o.input_size, "the block is ", described(block),
             "; of ", steps, " steps, rank ", rank, " has ", here, ": expected [", here, ", batch, ", o.input_size, "]");
  const int64_t batch = block.size(1);
  const auto expect_state = [&](const at::Tensor& given, const char* name) {
    const int64_t parts = o.layers * directions();
    TW_EXPECTS(!given.defined() || given.sizes() == at::IntArrayRef({parts, batch, o.hidden_size}), name, " is ", described(given), ", expected [",
               parts, ", ", batch, ", ", o.hidden_size, "]");
  };
  expect_state(start.hidden, "hidden");
  if (o.cell == Cell::lstm) expect_state(start.cell, "cell");
  if (start.lengths.defined()) {
    TW_EXPECTS(start.lengths.is_cpu() && start.lengths.scalar_type() == at::kLong && start.lengths.sizes() == at::IntArrayRef({batch}),
               "lengths are ", described(start.lengths), ", expected int64 [", batch, "] on the CPU");
    const bool fit = batch == 0 || (start.lengths.min().item<int64_t>() >= 0 && start.lengths.max().item<int64_t>() <= steps);
    TW_EXPECTS(fit, "lengths must be from 0 to ", steps, ", the length of the sequence");
  }
  const auto line = [](const char* name, const at::Tensor& tensor) {
    return tensor.defined() ? concat(name, ": ", described(tensor), ", content ", content_hash(tensor.detach())) : concat(name, ": none");
  };
  return {concat("steps: ", steps),
          concat("batch: ", batch, " of ", block.scalar_type()),
          concat(at::GradMode::is_enabled() ? "records" : "does not record", " for a backward pass"),
          line("lengths", start.lengths),
          line("hidden", start.hidden),
          line("cell", o.cell == Cell::lstm ? start.cell : at::Tensor())};
}

RecurrentOutput Recurrent::forward(const at::Tensor& block, int64_t steps, const RecurrentStart& start) {
  const RecurrentOptions& o = impl_->options;
  impl_->comms.begin_pass("the input of a Recurrent", 0, [&] { return impl_->checked(block, steps, start); });
  const Stopwatch watch;
  if (at::GradMode::is_enabled()) impl_->report.backward = Seconds(0);
  return revoke_on_exception(impl_->comms.onward(), [&]() -> RecurrentOutput {
    const auto state_of = [&](const at::Tensor& given) {
      return given.defined() ? given : at::zeros({o.layers * impl_->directions(), block.size(1), o.hidden_size}, block.options());
    };
    std::vector<at::Tensor> starts{state_of(start.hidden)};
    if (o.cell == Cell::lstm) starts.push_back(state_of(start.cell));
    const auto parameters = named_parameters();
    const auto& grids = impl_->grids(steps);
    at::Tensor sequence = block;
    std::vector<std::vector<at::Tensor>> ends(starts.size());
    for (int64_t layer = 0; layer < o.layers; ++layer) {
      std::vector<at::Tensor> outputs;
      for (int64_t direction = 0; direction < impl_->directions(); ++direction) {
        const int64_t index = layer * impl_->directions() + direction;
        const std::string suffix = '_' + Impl::suffix(layer, direction);
        Impl::LayerWeights weights{parameters["weight_ih" + suffix], parameters["weight_hh" + suffix], {}, {}};
        if (o.bias) {
          weights.bias_ih = parameters["bias_ih" + suffix];
          weights.bias_hh = parameters["bias_hh" + suffix];
        }
        State from;
        for (const at::Tensor& of : starts) from.push_back(of.select(0, index));
        TimeGrid& grid = direction == 1 ? *grids.back : *grids.onward;
        const bool back = direction == 1;
        auto [made, last] = impl_->run(grid, weights, back ? sequence.flip(0) : sequence, from, start.lengths, static_cast<size_t>(index));
        outputs.push_back(back ? made.flip(0) : made);
        for (size_t i = 0; i < last.size(); ++i) ends[i].push_back(last[i]);
      }
      sequence = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
    }
    impl_->report.forward = watch.elapsed();
    return {sequence, at::stack(ends[0]), o.cell == Cell::lstm ? at::stack(ends[1]) : at::Tensor()};
  });
}

namespace {

void copy_parameters(const torch::nn::Module& from, const torch::nn::Module& to) {
  const at::NoGradGuard no_grad;
  const auto theirs = from.named_parameters();
  for (const auto& each : to.named_parameters()) {
    const at::Tensor* value = theirs.find(each.key());
    TW_EXPECTS(value != nullptr, "the source module has no parameter ", each.key());
    TW_EXPECTS(value->sizes() == each.value().sizes(), each.key(), " is ", described(*value), ", expected ", described(each.value()));
    at::Tensor(each.value()).copy_(*value);
  }
}

}  // namespace

void Recurrent::load(const torch::nn::Module& module) { copy_parameters(module, *this); }
void Recurrent::store(torch::nn::Module& module) const { copy_parameters(*this, module); }

void Recurrent::set_iterations(Iterations iterations) { impl_->set_iterations(iterations); }
Iterations Recurrent::iterations() const { return {impl_->options.forward.iterations, impl_->options.backward.iterations}; }
void Recurrent::observe(PhaseObserver observer) { impl_->observer = std::move(observer); }
NetworkReport Recurrent::report() const { return impl_->report; }
const RecurrentOptions& Recurrent::options() const noexcept { return impl_->options; }
const Communicator& Recurrent::comm() const noexcept { return impl_->comms.lasting(); }

}  // namespace tw::layer_parallel
