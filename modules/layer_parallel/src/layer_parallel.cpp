// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/layer_parallel.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/autograd_node.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "iterated_network.hpp"
#include "named_layer.hpp"
#include "network.hpp"
#include "random_layer_seed.hpp"
#include "shared_tensors.hpp"
#include "states_on_ranks.hpp"

namespace tw::layer_parallel {
namespace {

constexpr const char* how_to_clip = "tw::clip_gradient_norm(comm, gradients, max_norm)";
// Ranks along `tensor` have replicas of some parameters and slices of others, so no list of one rank's gradients has each element once.
constexpr const char* how_to_clip_slices = "clip_grad_norm() of a ParallelModel, which parallelize() makes of the blocks";

/// A module that only holds registered names.
class Names : public torch::nn::Module {};

/// The names of an ODE block. Its mode is the mode of the block's layers.
class NamesOfBlock : public Names {
 public:
  explicit NamesOfBlock(LayerStack& stack) : stack_(stack) {}
  void train(bool on) override {
    Names::train(on);
    stack_.train(on);
  }

 private:
  LayerStack& stack_;
};

/// Registers `tensor` under a name with dots, such as "conv.weight".
void register_tensor(torch::nn::Module& root, const std::string& name, const at::Tensor& tensor, bool is_buffer) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) {
    is_buffer ? root.register_buffer(name, tensor) : root.register_parameter(name, tensor, tensor.requires_grad());
    return;
  }
  const std::string head = name.substr(0, dot);
  const auto children = root.named_children();
  const std::shared_ptr<torch::nn::Module>* child = children.find(head);
  register_tensor(child != nullptr ? **child : *root.register_module(head, std::make_shared<Names>()), name.substr(dot + 1), tensor, is_buffer);
}

/// Guards the gradients of this rank's layers. The stack of a split layer is a part even if this rank has all layers.
void guard_gradients_of(const LayerStack& stack, bool is_part, const char* how) {
  for (const StackedTensor& p : stack.parameters()) {
    const bool is_slice = !p.slices.empty() && has_guarded_gradient(p.slices.front());
    if (is_part || is_slice) guard_gradient(p.stack, how);
  }
}

/// Lines that must be equal on all ranks.
std::vector<std::string> lines_of(const std::vector<Block>& blocks, const LayerParallelOptions& options) {
  std::vector<std::string> lines = value_lines(options);
  for (const Block& block : blocks) {
    lines.push_back(
        concat(block.count, " layers", block.options.random ? ", random" : "", ", integrator ", static_cast<int>(block.options.integrator)));
  }
  return lines;
}

}  // namespace

void visit_training(LayerParallelOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Guess>> guesses{{"zero", Guess::zero}, {"previous", Guess::previous}};
  visitor.field("final_time", options.final_time, {.least = 0, .excludes_least = true},
                {.meaning = "final time T of every ODE block; its step size is T / layers"});
  visitor.field("recompute", options.recompute, {.meaning = "keep the states at C-points only, and compute the others again in the backward pass"});
  visitor.field("guess", options.guess, guesses, {.meaning = "initial guess of the iterations of a pass"});
}

void visit(LayerParallelOptions& options, OptionVisitor& visitor) {
  visit_training(options, visitor);
  visit_levels(options, visitor);
  visitor.group("forward", options.forward);
  visitor.group("backward", options.backward);
  visitor.field("front_layers", options.front_layers, at_least(0, any_count),
                {.meaning = "first layers of every ODE block that are outside of the iterations"});
  visitor.field("back_layers", options.back_layers, at_least(0, any_count),
                {.meaning = "last layers of every ODE block that are outside of the iterations"});
  visitor.field("seed", options.seed, Bounds{}, {.meaning = "seed of initial values and of random layers"});
}

void LayerParallelOptions::validate() const {
  expect_none(out_of_bounds(*this));
  level_options(*this).validate();
  forward.validate();
  backward.validate();
  TW_EXPECTS((forward.iterations == 0) == (backward.iterations == 0), "either both directions must be serial, with 0 iterations, or neither");
  TW_EXPECTS(guess == Guess::zero || (forward.residuals && backward.residuals), "guess = previous needs residuals = true in both directions");
}

namespace {

/// The iterations correct states by small differences. Rounding to the type that autocast chose for an earlier layer would lose them.
State of_ode(const State& state) {
  if (!AutocastState::here().is_on()) return state;
  return each(state, [](const at::Tensor& t) { return t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf ? t.to(at::kFloat) : t; });
}

/// Zero gradients of the stack's parameters.
std::vector<at::Tensor> zero_gradients(const LayerStack& stack) {
  std::vector<at::Tensor> gradients;
  for (const StackedTensor& p : stack.parameters()) {
    gradients.push_back(p.stack.requires_grad() ? at::zeros_like(p.stack, at::TensorOptions(), at::MemoryFormat::Contiguous) : at::Tensor());
  }
  return gradients;
}

/// Sends `state` from one rank to another. @return the state on `to`, `like` on all other ranks
State carried(const Communicator& comm, const State& state, Rank from, Rank to, const State& like) {
  if (from == to) return state;
  if (comm.rank() == from) {
    for (const at::Tensor& tensor : state) send(comm, tensor.contiguous(), to);
  }
  if (comm.rank() != to) return like;
  State arrived = each(like, [](const at::Tensor& t) { return at::empty(t.sizes(), t.options()); });
  for (const at::Tensor& tensor : arrived) recv(comm, tensor, from);
  return arrived;
}

}  // namespace

/// The layer of block `index`.
Layer make_plain_layer(const Block& block, size_t index, uint64_t seed) {
  GeneratorGuard generator;
  generator.seed(seed, static_cast<uint64_t>(index) << 32U);
  Layer layer = block.make(0);
  TW_EXPECTS(!layer.is_step, "block ", index, " is a plain layer, not a time step: its forward must not take dt");
  return named_layer(std::move(layer), concat("block ", index), false);
}

LayerParallel::Impl::Impl(const Communicator& comm, std::vector<Block> blocks, LayerParallelOptions options, BlockRange part)
    : comms_(comm), blocks_(std::move(blocks)), options_(options) {
  expect_same_on_all_ranks(comm_, "the blocks and options of a LayerParallel", lines_of(blocks_, options_));
  options_.validate();
  for (const Block& block : blocks_) TW_EXPECTS(block.count >= 1, "a block must have at least one layer, got ", block.count);
  TW_EXPECTS(std::any_of(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.is_ode(); }),
             "a network needs an ODE block of at least two layers");
  const auto count = static_cast<int64_t>(blocks_.size());
  if (part.end < 0) part.end = count;
  TW_EXPECTS(0 <= part.begin && part.begin < part.end && part.end <= count, "the network has ", count,
             " blocks, so a range must contain some of them, got ", part.begin, " to ", part.end);
  const auto observer = [this](const char* name, int level, auto begin, auto end) {
    if (observer_) observer_(name, level, begin, end);
  };
  revoke_on_exception(comm_, [&] {
    expect_no_shared_tensors(blocks_, options_.seed);
    for (auto i = static_cast<size_t>(part.begin); i < static_cast<size_t>(part.end); ++i) {
      Part& here = parts_.emplace_back(Part{i, std::to_string(i), nullptr, std::nullopt});
      if (blocks_[i].is_ode()) {
        here.ode = std::make_unique<OdeBlock>(comms_.onward(), comms_.reversed(), blocks_[i], options_, i, observer);
        last_ = here.ode->last_rank();
      } else if (comm_.rank() == last_) {
        here.layer = make_plain_layer(blocks_[i], i, options_.seed);
      }
    }
    const at::Tensor is_split = at::scalar_tensor(has_split_layers() ? 1 : 0, at::kLong);
    allreduce(comm_, is_split, ReduceOp::max);  // no rank continues unless all can
    is_split_anywhere_ = is_split.item<int64_t>() != 0;
  });
  comm.barrier();  // so that no rank still waits here when another one revokes the communicator
}

std::optional<c10::Device> LayerParallel::Impl::device() const {
  for (const Part& part : parts_) {
    if (part.ode && !part.ode->stack().parameters().empty()) return part.ode->stack().parameters()[0].stack.device();
    if (part.layer && !part.layer->module->parameters().empty()) return part.layer->module->parameters()[0].device();
  }
  return std::nullopt;
}

bool LayerParallel::Impl::has_split_layers() const {
  return std::ranges::any_of(parts_, [](const Part& part) {
    return part.ode ? part.ode->stack().has_split_layers() : part.layer && !slices_by_name(*part.layer->module).empty();
  });
}

int64_t LayerParallel::Impl::calls() const {
  int64_t calls = calls_of_plain_;
  for (const Part& part : parts_) {
    if (part.ode) calls = std::max(calls, part.ode->number_of_calls());
  }
  return calls;
}

void LayerParallel::Impl::set_calls(int64_t number) {
  const bool is_plain = std::ranges::none_of(parts_, [](const Part& part) { return part.ode != nullptr; });
  if (is_plain) calls_of_plain_ = number;
  for (Part& part : parts_) {
    if (part.ode) part.ode->set_calls(number);
  }
}

Modules LayerParallel::Impl::ode_modules() const {
  Modules all;
  for (const Part& part : parts_) {
    if (!part.ode) continue;
    for (const auto& each : part.ode->stack().modules()) all.push_back(each);
  }
  return all;
}

void LayerParallel::Impl::set_replica(int64_t replica) {
  TW_EXPECTS(replica >= 0, "the index of a replica must be at least 0, got ", replica);
  replica_ = replica;
  for (Part& part : parts_) {
    if (part.ode) part.ode->set_random_seed(random_seed(options_.seed, replica_));
  }
}

// `state` is the state on the rank where the last part has ended. On all others it is a tensor in autograd's graph that stands for it, so that
// backward passes reach the parts in the same order on every rank.
State LayerParallel::Impl::forward(const State& input, const State& extras) {
  const Stopwatch watch;
  if (c10::GradMode::is_enabled()) backward_time_ = Seconds(0);
  const c10::Device place = device().value_or(c10::Device(c10::kCPU));
  if (!anchor_.defined() || anchor_.device() != place) anchor_ = at::zeros({1}, at::device(place)).set_requires_grad(true);
  const bool gradient_for_all = begin_pass(input, extras);
  const int64_t call = calls();
  return revoke_on_exception(comms_.onward(), [&] {
    try {
      Rank here(0);
      std::vector<torch::autograd::Node*> blocks;
      at::Tensor anchor = anchor_;
      State state = enter(input, gradient_for_all, anchor);
      for (size_t i = 0; i < parts_.size(); ++i) {
        if (parts_[i].ode) {
          state = through(*parts_[i].ode, of_ode(state), here, extras, anchor);
          here = parts_[i].ode->last_rank();
          if (state[0].grad_fn()) blocks.push_back(state[0].grad_fn().get());
        } else if (parts_[i].layer) {
          state = through_plain(parts_[i], state, extras, call);
        }
      }
      State output = hand_out(state, blocks);
      if (training_) set_calls(call + 1);
      forward_time_ = watch.elapsed();
      return output;
    } catch (...) {
      set_calls(call);  // equal on all ranks in the next pass, wherever this one ended
      throw;
    }
  });
}

State LayerParallel::Impl::through(OdeBlock& block, const State& state, Rank here, const State& extras, const at::Tensor& anchor) {
  const auto recorded = c10::GradMode::is_enabled() ? std::make_shared<OdeBlock::Pass>() : nullptr;
  const auto like = std::make_shared<State>();  // a state of this pass, for its shape
  std::vector<at::Tensor> inputs = state;
  inputs.push_back(anchor);
  for (const StackedTensor& p : block.stack().parameters()) inputs.push_back(p.stack);
  const auto forward = [&, like] {
    *like = broadcast_shapes(comms_.onward(), detached(state), here, device());
    const State begin = carried(comms_.onward(), *like, here, block.first_rank(), *like);
    const State end = block.forward(begin, extras, recorded);
    return end.empty() ? State{at::empty({0}, anchor_.options())} : end;
  };
  const auto backward = [this, &block, recorded, like, here, zeros = at::zeros_like(state[0]),
                         tensors = state.size()](const std::vector<at::Tensor>& cotangents) {
    const Stopwatch watch;
    return revoke_on_exception(comms_.onward(), [&] {
      TW_EXPECTS(!c10::GradMode::is_enabled(), "gradients of parallel layers cannot be differentiated again: create_graph must be false");
      std::vector<at::Tensor> gradients = zero_gradients(block.stack());
      const State end = comm_.rank() == block.last_rank() ? State(cotangents.begin(), cotangents.end()) : *like;
      const State begin = block.backward(*recorded, end, gradients, torch::autograd::get_current_graph_task_keep_graph());
      State result = carried(comms_.onward(), begin, block.first_rank(), here, *like);
      if (comm_.rank() != here) result = State(tensors, zeros);
      result.emplace_back();  // gradient of the anchor
      result.insert(result.end(), gradients.begin(), gradients.end());
      backward_time_ += watch.elapsed();
      --blocks_to_come_;
      return result;
    });
  };
  return make_node(inputs, {forward, backward});
}

namespace {

/// Whether the current backward pass will run `node`, which depends on the current node.
bool is_to_run(torch::autograd::Node* node) {
  const auto* const infos = torch::autograd::get_current_graph_task_exec_info();
  if (infos->empty()) return true;  // backward() without inputs runs all nodes
  const auto found = infos->find(node);
  return found != infos->end() && found->second.should_execute();
}

}  // namespace

State LayerParallel::Impl::hand_out(const State& state, const std::vector<torch::autograd::Node*>& blocks) {
  std::vector<at::Tensor> inputs = state;
  inputs.push_back(anchor_);
  const auto forward = [&] { return broadcast_state(comms_.onward(), detached(state), last_, device()); };
  const auto backward = [this, blocks, mine = comm_.rank() == last_, zeros = at::zeros_like(state[0]),
                         tensors = state.size()](const std::vector<at::Tensor>& cotangents) {
    blocks_to_come_ += std::ranges::count_if(blocks, is_to_run);
    std::vector<at::Tensor> result = mine ? cotangents : std::vector<at::Tensor>(tensors, zeros);
    result.emplace_back();
    return result;
  };
  return make_node(inputs, {forward, backward});
}

LayerParallel::LayerParallel(const Communicator& comm, std::vector<Block> blocks, const LayerParallelOptions& options, const BlockRange& range)
    : impl_(std::make_unique<Impl>(comm, std::move(blocks), options, range)) {
  const bool is_part = impl_->comm_.size() > 1;
  const char* const how = impl_->is_split_anywhere_ ? how_to_clip_slices : how_to_clip;
  for (Impl::Part& part : impl_->parts_) {
    if (part.layer) {
      register_module(part.name, part.layer->module);
      for (const at::Tensor& each : part.layer->module->parameters()) {
        if (is_part || (impl_->is_split_anywhere_ && has_guarded_gradient(each))) guard_gradient(each, how);
      }
    }
    if (!part.ode) continue;
    guard_gradients_of(part.ode->stack(), is_part, how);
    auto& names = *register_module(part.name, std::make_shared<NamesOfBlock>(part.ode->stack()));
    for (const StackedTensor& p : part.ode->stack().parameters()) register_tensor(names, p.name, p.stack, false);
    for (const StackedTensor& b : part.ode->stack().buffers()) register_tensor(names, b.name, b.stack, true);
  }
}

LayerParallel::~LayerParallel() = default;

at::Tensor LayerParallel::forward(const at::Tensor& input) { return forward(State{input}, {}).at(0); }

State LayerParallel::forward(const State& input, const State& extras) { return impl_->forward(input, extras); }

void LayerParallel::set_iterations(Iterations iterations) {
  expect_iterations(impl_->comm_, iterations);
  for (Impl::Part& part : impl_->parts_) {
    if (part.ode) part.ode->set_iterations(iterations);
  }
  impl_->options_.forward.iterations = iterations.forward;
  impl_->options_.backward.iterations = iterations.backward;
}

Iterations LayerParallel::iterations() const { return {impl_->options_.forward.iterations, impl_->options_.backward.iterations}; }

void LayerParallel::restart_over(const Communicator& comm) {
  impl_->comms_ = PassCommunicators(comm);
  impl_->blocks_to_come_ = 0;
}

std::vector<const Communicator*> LayerParallel::communicators() const {
  std::vector<const Communicator*> all = TrainableModel::communicators();
  all.push_back(&impl_->comms_.lasting());
  return all;
}

void LayerParallel::for_each_layer(const OnLayer& on_layer) const {
  TrainableModel::for_each_layer(on_layer);
  for (const auto& each : impl_->ode_modules()) {
    tw::for_each_layer(*each,
                       [&](const std::string& name, const torch::nn::Module& layer) { on_layer(concat("(a layer of a block) ", name), layer); });
  }
}

void LayerParallel::set_calls(int64_t number) { impl_->set_calls(number); }

void LayerParallel::set_replica(int64_t replica) { impl_->set_replica(replica); }

void LayerParallel::pass(const TrainingPass& pass) {
  set_calls(pass.number);
  TrainableModel::pass(pass);
}

void LayerParallel::report_phases(OnPhase on_phase) { observe(without_levels(std::move(on_phase))); }

void LayerParallel::observe(PhaseObserver observer) { impl_->observer_ = std::move(observer); }

NetworkReport LayerParallel::report() const {
  NetworkReport report;
  for (const Impl::Part& part : impl_->parts_) {
    if (part.ode) report.blocks.push_back({part.name, part.ode->forward_report(), part.ode->backward_report(), part.ode->modelled_speed_up()});
  }
  report.forward = impl_->forward_time_;
  report.backward = impl_->backward_time_;
  return report;
}

std::string LayerParallel::unbatchable(const std::string& name) const {
  for (const Impl::Part& part : impl_->parts_) {
    if (part.name == name && part.ode) return part.ode->stack().unbatchable();
  }
  TW_EXPECTS(false, "there is no ODE block called '", name, "'");
}

bool LayerParallel::has_split_layers() const { return impl_->has_split_layers(); }

void LayerParallel::train(bool on) {
  torch::nn::Module::train(on);
  impl_->training_ = on;
}

void LayerParallel::set_training(bool training) { impl_->switch_.set(*this, training, impl_->ode_modules()); }

std::shared_ptr<torch::nn::Module> LayerParallel::clone(const std::optional<at::Device>& /*device*/) const {
  TW_EXPECTS(
      false,
      "a LayerParallel cannot be cloned, because each rank has only some of its layers: use serial_on_root(), which returns the whole network");
}

const Communicator& LayerParallel::comm() const noexcept { return impl_->comm_; }
const LayerParallelOptions& LayerParallel::options() const noexcept { return impl_->options_; }

}  // namespace tw::layer_parallel
