// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"
#include "periodic_average.hpp"
#include "wrapped_model_check.hpp"

#include <tw/data_parallel/local_sgd.hpp>
#include <tw/data_parallel/synchronize.hpp>

namespace tw {
namespace {

std::vector<NamedTensor> averaged_of(const std::vector<NamedTensor>& tensors, const LocalSgdOptions& options) {
  std::vector<NamedTensor> averaged = trained(tensors);
  if (!options.average_buffers) return averaged;
  for (const NamedTensor& tensor : tensors) {
    if (!tensor.tensor.requires_grad() && (tensor.tensor.is_floating_point() || tensor.tensor.is_complex())) averaged.push_back(tensor);
  }
  return averaged;
}

}  // namespace

void visit(LocalSgdOptions& options, OptionVisitor& visitor) {
  visitor.field("period", options.period, at_least(1), {.meaning = "steps between two averages", .unit = "steps"});
  visitor.field("average_buffers", options.average_buffers, {.meaning = "average floating-point buffers together with the parameters"});
}
void LocalSgdOptions::validate() const { expect_none(out_of_bounds(*this)); }

LocalSgd::LocalSgd(const Communicator& comm, const torch::nn::Module& module, const LocalSgdOptions& options)
    : LocalSgd(comm, tensors_of_replica(comm, module), options) {
  wrapped_ = std::make_unique<WrappedModelCheck>("LocalSgd", module);
}

LocalSgd::LocalSgd(const Communicator& comm, const std::vector<NamedTensor>& tensors, const LocalSgdOptions& options)
    : wrapped_(std::make_unique<WrappedModelCheck>("LocalSgd", tensors)), averaged_(averaged_of(without_aliases(tensors), options)) {
  const std::vector<TensorSpec> specs = specs_of(averaged_);
  expect_same_strategy(comm, "LocalSgd", value_lines(options), specs);
  options.validate();
  synchronize(comm, tensors);
  average_ = std::make_unique<PeriodicAverage>(comm, "local_sgd/steps", specs, device_of(comm, "LocalSgd", averaged_), options.period);
}

LocalSgd::~LocalSgd() = default;

bool LocalSgd::step() {
  wrapped_->expect_unchanged();
  if (!average_->count_step()) return false;
  average();
  return true;
}

bool LocalSgd::finish() {
  if (!average_->steps_are_left()) return false;
  average();
  return true;
}

void LocalSgd::average() {
  average_->average([&](size_t id, const at::Tensor& place) { place.copy_(averaged_[id].tensor); },
                    [&](size_t id, const at::Tensor& place) { averaged_[id].tensor.copy_(place); });
}

std::vector<NamedShard> LocalSgd::shards() const { return {average_->counter()}; }
int64_t LocalSgd::buffer_bytes() const noexcept { return average_->buffer_bytes(); }
int64_t LocalSgd::bytes_communicated() const noexcept { return average_->bytes_communicated(); }
Seconds LocalSgd::exposed_time() const noexcept { return average_->exposed_time(); }

}  // namespace tw
