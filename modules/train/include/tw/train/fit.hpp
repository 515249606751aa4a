// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <tw/data/image_dataset.hpp>
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/train/observer.hpp>
#include <tw/train/options.hpp>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tw::train {

/// What is trained: logits from inputs, [n, ...] -> [n, classes].
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// Trains a classifier on all ranks: cross-entropy, every sample once an epoch, evaluated on `test` after each epoch. Collective.
/// Works for any number of ranks, also for more ranks than samples. The global batch is batch_size times the number of ranks.
/// @param optimizer over the parameters of `model`; its step() and zero_grad() are all that is called.
/// @param observers told on rank 0.
/// @return the same on all ranks.
Summary fit(const Communicator& comm, const Model& model, torch::optim::Optimizer& optimizer, const ImageDataset& train, const ImageDataset& test,
            const Options& options, const std::vector<Observer*>& observers);

}  // namespace tw::train
