// SPDX-License-Identifier: Apache-2.0
#include <tw/train/trainer.hpp>

#include "run.hpp"

namespace tw::train {

Trainer::Trainer(const Communicator& comm, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train,
                 const Dataset& test, const Options& options, const Dataset* validation)
    : run_(std::make_unique<Run>(Mesh(comm, {{"data"}}), std::move(model), optimizer, std::move(objective), train, test, options, validation)) {}

Trainer::Trainer(const Mesh& mesh, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
                 const Options& options, const Dataset* validation)
    : run_(std::make_unique<Run>(Mesh(mesh.comm(), mesh.shape().axes()), std::move(model), optimizer, std::move(objective), train, test, options,
                                 validation)) {}

Trainer::~Trainer() = default;

void Trainer::add(Hook& hook) { run_->add(hook); }
std::vector<NamedShard> Trainer::shards() const { return run_->shards(); }
void Trainer::prepare(const std::vector<std::string>& names) { run_->prepare(names); }
void Trainer::apply(const std::vector<NamedShard>& shards) { run_->apply(shards); }
void Trainer::begin_after(int64_t epochs) { run_->begin_after(epochs); }
Summary Trainer::run() { return run_->run(); }
Figures Trainer::evaluate(const Dataset& dataset) { return run_->evaluate(dataset); }

}  // namespace tw::train
