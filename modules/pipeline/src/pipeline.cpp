// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/pipeline.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/tensor/on_cpu.hpp>

#include "impl.hpp"
#include "random_key.hpp"

namespace tw::pipeline {
namespace {

constexpr int64_t no_device = -1;

/// The device type of the first tensor.
int64_t device_type_of(const torch::nn::Module& module) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    if (!tensors.empty()) return static_cast<int64_t>(tensors.front().device().type());
  }
  return no_device;
}

std::vector<int> replicas_of(const PipelineOptions& options) {
  return options.replicas.empty() ? std::vector<int>(options.schedule.devices.size(), 1) : options.replicas;
}

/// The number of rows of all tensors; 0 without tensors, -1 if they differ.
int64_t common_rows(const std::vector<at::Tensor>& tensors) {
  int64_t rows = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t of_this = tensors[i].defined() && tensors[i].dim() > 0 ? tensors[i].size(0) : 0;
    if (i > 0 && of_this != rows) return -1;
    rows = of_this;
  }
  return rows;
}

/// Joins the outputs of the last stage's replicas, each of which has some rows of the batch.
std::vector<at::Tensor> rows_together(const std::vector<std::vector<at::Tensor>>& of_replicas, int64_t rows) {
  if (of_replicas.size() == 1) return of_replicas.front();
  std::vector<at::Tensor> whole;
  for (size_t i = 0; i < of_replicas.front().size(); ++i) {
    std::vector<at::Tensor> parts;
    int64_t found = 0;
    for (const std::vector<at::Tensor>& outputs : of_replicas) {
      parts.push_back(outputs[i]);
      found += outputs[i].dim() > 0 ? outputs[i].size(0) : 0;
    }
    if (found != rows) {
      throw Error(concat("an output of shape ", parts.front().sizes(), " comes from each of ", parts.size(),
                         " replicas: concatenated along the first dimension, they do not have the ", rows, " rows of the batch"));
    }
    whole.push_back(at::cat(parts));
  }
  return whole;
}

/// Wraps `loss`, which must outlive the result, for a model with one output.
LossOfMany of_one(const Loss& loss) {
  return [&loss](const std::vector<at::Tensor>& y, const std::vector<at::Tensor>& t) {
    TW_EXPECTS(y.size() == 1, "the model has ", y.size(), " outputs: call the run() that takes lists of tensors and a loss for several outputs");
    return loss(y.front(), t.front());
  };
}

}  // namespace

StageRanks ranks_of(const PipelineOptions& options) { return StageRanks(replicas_of(options), options.schedule.device_of_stages()); }

void expect_fit(const Communicator& comm, const PipelineOptions& options, const std::string& what) {
  std::vector<std::string> lines = value_lines(options);
  lines.push_back(concat(options.schedule.stages, " stages, ", options.schedule.micro_batches, " micro-batches"));
  lines.push_back(to_text(options.schedule));
  lines.push_back(what);
  expect_same_on_all_ranks(comm, "the options of a pipeline", lines);
  options.validate();
  TW_EXPECTS(options.ranks() == comm.size(), "the stages have ", options.ranks(), " ranks, but the communicator has ", comm.size());
}

Pipeline::Impl::Impl(Start start)
    : comm_(std::move(start.comm)),
      model_(std::move(start.model)),
      options_(std::move(start.options)),
      ranks_(ranks_of(options_)),
      place_{comm_, ranks_, ranks_.device_of(comm_.rank()), ranks_.replica_of(comm_.rank())},
      frozen_(*model_.module),
      seed_(options_.seed),
      calls_(at::zeros({}, at::kLong)) {
  on_all_ranks(comm_, "making a pipeline", [&] {
    TW_EXPECTS(model_.stages.size() == place_.stages().size(), "the schedule has ", ranks_.stage_names(place_.device), " on rank ", comm_.rank(),
               ", but `stages` has ", model_.stages.size(), " entries");
    TW_EXPECTS(!options_.schedule.has_halves() || model_.has_halves, ranks_.stage_names(place_.device),
               ": blocks run as they are, so backward passes cannot run in halves: use the schedule 1f1b, or pass the model as one "
               "module, whose ",
               "operators are captured");
  });
  revoke_on_exception(comm_, [&] {
    make_reducers();
    gradients_->make_parameters_equal();
    comm_.barrier();  // no rank continues unless all can
  });
  if (ranks_.devices() == 1) return;
  for (const NamedTensor& each : gradients_->parameters()) guard_gradient(each.tensor, "Pipeline::clip_grad_norm()");
}

void Pipeline::Impl::make_reducers() {
  gradients_ = std::make_unique<StageGradients>(comm_, ranks_, model_);
  shared_ = std::make_unique<SharedState>(comm_, ranks_, model_);
}

int64_t Pipeline::Impl::agree_on_rows(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>* targets) {
  const at::Tensor mine =
      at::tensor({place_.has_first() ? common_rows(inputs) : 0, place_.has_last() && targets != nullptr ? common_rows(*targets) : 0,
                  static_cast<int64_t>(targets != nullptr), static_cast<int64_t>(gradients_->needs_preparation()), device_type_of(*model_.module),
                  static_cast<int64_t>(!frozen_.unfrozen().empty()), static_cast<int64_t>(!part_of_other_mode().empty())},
                 at::kLong);
  const at::Tensor all = at::zeros({comm_.size(), mine.numel()}, at::kLong);
  allgather(comm_, mine, all);
  const auto of = all.accessor<int64_t, 2>();
  const int first = ranks_.first_rank(ranks_.device_of_stage(0));
  const int64_t rows = of[first][0];
  TW_EXPECTS(rows > 0, "the inputs of rank ", first, " have ", rows < 0 ? "different numbers of rows" : "no rows");
  for (int rank = 0; rank < comm_.size(); ++rank) {
    TW_EXPECTS(!ranks_.has(rank, 0) || of[rank][0] == rows, "the inputs have ", rows, " rows on rank ", first, " and ", of[rank][0], " on rank ",
               rank, ": each rank of the first stage must get the whole batch");
    TW_EXPECTS(!ranks_.has(rank, place_.last_stage()) || targets == nullptr || of[rank][1] == rows, "the batch has ", rows, " rows of inputs and ",
               of[rank][1] < 0 ? "different numbers of rows" : concat(of[rank][1], " rows"), " of targets on rank ", rank);
    TW_EXPECTS(of[rank][2] == of[0][2], "some ranks call run(), others forward() or evaluate(): all ranks must make the same call");
  }
  if (all.select(1, 5).any().item<bool>()) {
    const auto rank = static_cast<int>(all.select(1, 5).argmax().item<int64_t>());
    TW_EXPECTS(false, "parameter '", broadcast_string(comm_, frozen_.unfrozen(), Rank(rank)), "' of ", ranks_.stage_names(ranks_.device_of(rank)),
               " requires a gradient, unlike when the pipeline was made: make the pipeline after all changes of requires_grad, on all ranks");
  }
  if (all.select(1, 6).any().item<bool>()) {
    const auto rank = static_cast<int>(all.select(1, 6).argmax().item<int64_t>());
    TW_EXPECTS(
        false, "part '", broadcast_string(comm_, part_of_other_mode(), Rank(rank)), "' of ", ranks_.stage_names(ranks_.device_of(rank)),
        " is in a different mode than the pipeline, whose parts run in the modes in which the module was planned: call eval() of a part before "
        "plan(), and afterwards only train() and eval() of the pipeline");
  }
  const auto kind_of_others = all.select(1, 4).max().item<int64_t>();
  if (of[comm_.rank()][4] == no_device && kind_of_others != no_device) {
    device_of_others_ = current_device(static_cast<c10::DeviceType>(kind_of_others));
  }
  if (all.select(1, 3).any().item<bool>()) {
    if (gradients_->needs_preparation()) gradients_->prepare();
    comm_.barrier();
  }
  return rows;
}

void Pipeline::Impl::expect_usable() const {
  // Another rank may fail before this one begins the pass.
  TW_EXPECTS(failure_.empty() && !comm_.revoked(),
             "a pass of this pipeline failed, so it cannot run another: make a new Pipeline. The parameters of each stage are unchanged. What "
             "failed: ",
             failure_.empty() ? "another rank's part of the pass" : failure_);
}

std::string Pipeline::Impl::part_of_other_mode() const {
  if (!model_.has_one_mode) return "";
  for (const auto& each : model_.module->named_modules("", /*include_self=*/false)) {
    if (each.value()->is_training() != model_.module->is_training()) return each.key();
  }
  return "";
}

std::vector<at::Tensor> Pipeline::Impl::on_model_device(std::vector<at::Tensor> batch) const {
  if (!device_of_others_) return batch;
  for (at::Tensor& each : batch) each = each.to(*device_of_others_);
  return batch;
}

Pipeline::Start Pipeline::start_of(const Communicator& comm, StageModel mine, const PipelineOptions& options) {
  expect_fit(comm, options, "stages");
  return {comm.dup(), std::move(mine), options};
}

Pipeline::Pipeline(Start start) : impl_(std::make_unique<Impl>(std::move(start))) {
  const torch::nn::Module& module = *impl_->model_.module;
  for (const auto& child : module.named_children()) register_module(child.key(), child.value());
  for (const auto& p : module.named_parameters(false)) register_parameter(p.key(), p.value(), p.value().requires_grad());
  for (const auto& b : module.named_buffers(false)) register_buffer(b.key(), b.value());
}

Pipeline::Pipeline(const Communicator& comm, const std::vector<BlockFactory>& blocks, const PipelineOptions& options)
    : Pipeline(start_of(comm, blocks, options)) {
  comm.barrier();  // no rank still waits here when another one revokes the communicator
}

Pipeline::Pipeline(const Communicator& comm, StageModel mine, const PipelineOptions& options) : Pipeline(start_of(comm, std::move(mine), options)) {
  comm.barrier();
}

Pipeline::~Pipeline() = default;

double Pipeline::run(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss) {
  return run(std::vector{inputs}, std::vector{targets}, of_one(loss));
}

double Pipeline::run(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const LossOfMany& loss) {
  return run_weighted(inputs, targets, loss, 1);
}

double Pipeline::run_weighted(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const LossOfMany& loss, double weight) {
  impl_->expect_usable();
  const int64_t rows = impl_->agree_on_rows(inputs, &targets);
  const Place& place = impl_->place_;
  const Batch batch{place.has_first() ? impl_->on_model_device(inputs) : inputs, place.has_last() ? impl_->on_model_device(targets) : targets, loss,
                    rows, weight};
  return impl_->in_pass([&] {
    Impl& me = *impl_;
    me.gradients_->begin();
    BatchRun run(me.place_, me.model_, me.options_, batch, me.seed_, static_cast<uint64_t>(me.calls_.item<int64_t>()), me.on_phase_);
    me.gradients_->remember_buffers();
    me.shared_->remember();
    const at::Tensor total = at::tensor({run.execute()}, at::kDouble);
    me.shared_->note_changes();
    me.gradients_->reduce();  // this rank's sends proceed meanwhile
    me.gradients_->average_buffers(static_cast<double>(run.rows()) / static_cast<double>(batch.rows));
    me.shared_->exchange();
    run.finish();
    me.calls_.add_(1);
    me.evaluations_ = 0;
    allreduce(me.comm_, total, ReduceOp::sum);
    return total.item<double>();
  });
}

void Pipeline::pass(const TrainingPass& pass) {
  set_calls(pass.number);
  at::Tensor loss = at::tensor(run_weighted({pass.inputs}, {pass.targets}, of_one(pass.loss), pass.weight), at::kDouble);
  if (pass.on_loss) pass.on_loss({}, loss);
}

bool Pipeline::needs_samples() const { return impl_->place_.has_first() || impl_->place_.has_last(); }

void Pipeline::report_phases(OnPhase on_phase) { impl_->on_phase_ = std::move(on_phase); }

std::vector<at::Tensor> Pipeline::Impl::pass_forward(const std::vector<at::Tensor>& inputs, Rows all) {
  const Rows mine = place_.ranks.share(all, comm_.rank());
  const uint64_t key = key_of_forward(seed_, static_cast<uint64_t>(calls_.item<int64_t>()), evaluations_++);
  GeneratorGuard generator;
  generator.seed(key, static_cast<uint64_t>(comm_.rank()));
  shared_->remember();
  std::vector<Work> sends;
  std::vector<at::Tensor> values;
  for (size_t i = 0; i < model_.stages.size() && mine.count() > 0; ++i) {
    const int stage = place_.stages()[i];
    if (stage == 0) {
      for (const at::Tensor& each : on_model_device(inputs)) values.push_back(each.narrow(0, mine.begin, mine.count()));
    } else if (!place_.has(stage - 1)) {  // else `values` are the previous stage's outputs
      values.clear();                     // before this rank waits
      values = receive_activations(comm_, place_.ranks.peers(stage - 1, all, mine), stage - 1).values;
    }
    values = model_.stages[i].forward(values, {.rows = mine.count(), .key = key, .first = mine.begin});
    if (place_.has(stage + 1)) continue;
    send_activations(comm_, place_.ranks.peers(stage + 1, all, mine), {values, std::vector<uint8_t>(values.size(), 0)}, mine, stage, sends);
    std::erase_if(sends, [](Work& work) { return work.test(); });
  }
  wait_all(sends);
  shared_->note_changes();
  shared_->exchange();
  return values;
}

std::vector<at::Tensor> Pipeline::Impl::outputs_of(const std::vector<at::Tensor>& inputs, bool everywhere) {
  expect_usable();
  const Rows all{0, agree_on_rows(inputs, nullptr)};
  return in_pass([&]() -> std::vector<at::Tensor> {
    const c10::AutoGradMode no_gradients(false);
    const std::vector<at::Tensor> outputs = pass_forward(inputs, all);
    const std::vector<Peer> last = ranks_.peers(ranks_.stages() - 1, all, all);
    const auto is_here = [&](const Peer& each) { return each.rank == comm_.rank(); };
    std::vector<std::vector<at::Tensor>> of_replicas;
    if (everywhere) {
      for (const Peer& each : last) of_replicas.push_back(broadcast_any(comm_, outputs, Rank(each.rank)));
    } else if (is_here(last.front())) {
      of_replicas.push_back(outputs);
      for (size_t i = 1; i < last.size(); ++i) of_replicas.push_back(receive(comm_, {Rank(last[i].rank)}).values);
    } else {
      if (std::any_of(last.begin(), last.end(), is_here)) {
        std::vector<Work> sends;
        send(comm_, {outputs, std::vector<uint8_t>(outputs.size(), 0)}, {Rank(last.front().rank)}, sends);
        wait_all(sends);
      }
      return {};
    }
    return rows_together(of_replicas, all.count());
  });
}

at::Tensor Pipeline::forward(const at::Tensor& inputs) {
  const std::vector<at::Tensor> outputs = forward(std::vector{inputs});
  TW_EXPECTS(outputs.size() == 1, "the model has ", outputs.size(), " outputs: forward() of a list of tensors returns them");
  return outputs.front();
}

std::vector<at::Tensor> Pipeline::forward(const std::vector<at::Tensor>& inputs) { return impl_->outputs_of(inputs, /*everywhere=*/true); }

std::vector<at::Tensor> Pipeline::evaluate(const std::vector<at::Tensor>& inputs) { return impl_->outputs_of(inputs, /*everywhere=*/false); }

at::Tensor Pipeline::evaluate(const at::Tensor& inputs) {
  const std::vector<at::Tensor> outputs = impl_->outputs_of({inputs}, /*everywhere=*/false);
  if (outputs.empty()) return {};
  return revoke_on_exception(impl_->comm_, [&] {
    TW_EXPECTS(outputs.size() == 1, "the model has ", outputs.size(), " outputs: evaluate() returns one");
    return outputs.front();
  });
}

double Pipeline::clip_grad_norm(double max_norm) {
  return revoke_on_exception(impl_->comm_, [&] { return impl_->gradients_->clip(max_norm); });
}

void Pipeline::set_calls(int64_t number) {
  TW_EXPECTS(number >= 0, "the number of a call must be at least 0, got ", number);
  impl_->calls_.fill_(number);
  impl_->evaluations_ = 0;
}

void Pipeline::set_replica(int64_t replica) {
  TW_EXPECTS(replica >= 0, "the number of a replica must be at least 0, got ", replica);
  const uint64_t seed = impl_->options_.seed;
  impl_->seed_ = replica == 0 ? seed : derived_seed(seed, static_cast<uint64_t>(replica));
}

void Pipeline::restart_over(const Communicator& comm) {
  impl_->comm_ = comm.dup();
  impl_->failure_.clear();
  impl_->evaluations_ = 0;
  impl_->make_reducers();
}

const PipelineOptions& Pipeline::options() const noexcept { return impl_->options_; }
const Communicator* Pipeline::holders() const noexcept { return &impl_->comm_; }
const std::vector<int>& Pipeline::stages() const noexcept { return impl_->place_.stages(); }

void Pipeline::train(bool on) {
  Module::train(on);
  impl_->model_.module->train(on);
}

std::shared_ptr<torch::nn::Module> Pipeline::clone(const std::optional<at::Device>& /*device*/) const {
  TW_EXPECTS(false, "a Pipeline cannot be cloned, because each rank has only some of the stages: whole_on_root() returns all parameters");
}

// The stage's module has the same submodules, but its own mode.
void Pipeline::set_training(bool training) { impl_->switch_.set(*this, training, with_parts(*impl_->model_.module)); }

}  // namespace tw::pipeline
