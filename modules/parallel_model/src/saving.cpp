// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/agreement.hpp>
#include <tw/comm/full_tensors.hpp>

#include "load_files.hpp"
#include "parallel_model_impl.hpp"

namespace tw {

OptimizerState ParallelModel::Impl::state_of(torch::optim::Optimizer& optimizer) const {
  return on_all_ranks(lasting_, "reading the state of the optimizer", [&] { return OptimizerState(optimizer, optimized_); });
}

std::vector<NamedShard> ParallelModel::shards() const { return impl_->state_.shards(*impl_->sums_); }

void ParallelModel::save(CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer, const std::string& metadata) const {
  std::vector<NamedShard> all = shards();
  const std::vector<NamedShard> state = impl_->state_of(optimizer).shards();
  all.insert(all.end(), state.begin(), state.end());
  store.save(step, all, metadata);
}

std::string ParallelModel::load(const CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer) {
  impl_->begin();
  const at::NoGradGuard no_grad;
  OptimizerState state = impl_->state_of(optimizer);
  state.prepare(store.names(step));
  std::vector<NamedShard> all = shards();
  const std::vector<NamedShard> of_optimizer = state.shards();
  all.insert(all.end(), of_optimizer.begin(), of_optimizer.end());
  std::string metadata = store.load(step, all);
  impl_->sums_->parameters_written();
  state.apply(all);
  return metadata;
}

void ParallelModel::load(const std::vector<std::filesystem::path>& files, const std::function<std::string(const std::string& name)>& name_in_files) {
  impl_->begin();
  load_files(impl_->mesh().comm(), impl_->state_.tensors(*impl_->sums_), files, name_in_files);
  impl_->sums_->parameters_written();
}

std::vector<NamedTensor> ParallelModel::whole_on_root() const {
  impl_->begin();
  return full_tensors_on_root(impl_->mesh().comm(), impl_->state_.tensors(*impl_->sums_));
}

}  // namespace tw
