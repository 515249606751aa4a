// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/schedule.hpp>
#include <utility>
#include <vector>

namespace tw::pipeline {

/// A part of a model, run behind the one before it.
struct Block {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// Makes a block where it is called.
using BlockFactory = std::function<Block()>;

/// @param factory gives a module holder, such as torch::nn::Linear, whose forward takes and gives a tensor
template <class Factory>
BlockFactory block(Factory factory) {
  return [factory = std::move(factory)]() mutable -> Block {
    auto holder = factory();
    return {holder.ptr(), [holder](const at::Tensor& x) mutable { return holder->forward(x); }};
  };
}

/// The mean of a loss over the rows of its arguments, float of no dimension.
using Loss = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

/// A model in stages, one a rank, which work on different micro-batches at the same time. Each rank has the parameters of its own blocks, under the
/// names that they have in a torch::nn::Sequential of all, such as "3.weight".
///
/// ```
/// Pipeline model(comm, blocks, one_forward_one_backward(comm.size(), 8));
/// torch::optim::SGD sgd(model.parameters(), 0.1);
/// sgd.zero_grad();
/// double loss = model.run(x, y, torch::nn::CrossEntropyLoss());   // forward and backward
/// sgd.step();
/// ```
class Pipeline : public torch::nn::Module {
 public:
  /// Collective. Every rank calls all factories in their order, so that the random numbers are those of one process with this rank's generator, and
  /// frees at once what is not its own: at most its own blocks and one exist. Stages have equal numbers of blocks, the first ones one more.
  /// @param schedule as many stages as ranks, stage i on device i. @throws ContractError on every rank for one that has problems_of(), or more stages
  /// than blocks.
  Pipeline(const Communicator& comm, const std::vector<BlockFactory>& blocks, Schedule schedule);

  /// Runs the schedule on a batch: adds the gradients of the mean loss to those of the parameters. Collective.
  /// @param inputs [n, ...], used on rank 0; elsewhere anything. @param targets [n, ...], used on the last rank. n need not be a multiple of the
  /// micro-batches: they have n / micro_batches rows, the first ones one more, and count by their rows.
  /// @return the mean loss of the batch, on every rank. @throws ContractError for fewer rows than micro-batches; RevokedError on ranks where nothing
  /// is wrong, when another has thrown
  double run(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss);
  /// The output for a batch on every rank, without gradients, in one piece. Collective. @param inputs used on rank 0
  at::Tensor forward(const at::Tensor& inputs);

  const Schedule& schedule() const noexcept { return schedule_; }
  /// The model's blocks that this rank has: begin, end.
  std::pair<int64_t, int64_t> blocks() const noexcept { return {begin_, begin_ + static_cast<int64_t>(blocks_.size())}; }

 private:
  bool is_first() const { return comm_.rank() == 0; }
  bool is_last() const { return comm_.rank() == comm_.size() - 1; }
  at::Tensor through_blocks(at::Tensor x) const;

  Communicator comm_;
  Schedule schedule_;
  int64_t begin_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace tw::pipeline
