// SPDX-License-Identifier: Apache-2.0
#include "parameter_unit.hpp"

#include <c10/core/StorageImpl.h>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw {
ParameterUnit::ParameterUnit(MemoryOwner* owner, size_t index, std::vector<NamedTensor> parameters, const std::vector<int64_t>& offsets,
                             int64_t numel, const at::TensorOptions& options)
    : watched_(std::make_shared<WatchedMemory>(owner, index)),
      parameters_(std::move(parameters)),
      numel_(numel),
      options_(options),
      storage_(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes()), watched_pointer(nullptr, watched_, {}, options_.device()), nullptr,
               false),
      versions_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    place_in_storage(parameters_[i].tensor, storage_, offsets[i], options_.dtype().toScalarType());
  }
  release();
}

ParameterUnit::~ParameterUnit() {
  watched_->owner = nullptr;
  empty(concat("parameter ", parameters_.front().name, " was sharded, and the object that gathered it no longer exists"));
}

void ParameterUnit::fill(const at::Tensor& memory, bool watched) {
  memory_ = memory;
  c10::StorageImpl* storage = storage_.unsafeGetStorageImpl();
  allow_pointers(storage_);
  storage->set_data_ptr_noswap(watched_pointer(memory.data_ptr(), watched_, {}, options_.device()));
  for (size_t i = 0; i < parameters_.size(); ++i) versions_[i] = version_of(i);
  watch_parameters(watched);
}

at::Tensor ParameterUnit::release() {
  watch_parameters(true);
  empty(
      concat("the values of parameter ", parameters_.front().name,
             " and its neighbours are sharded over all ranks: they are gathered only while an operator of LibTorch uses them, so there is no pointer "
             "to them. To write them to a file, save FullySharded::shards(), a ParallelModel by its save(), or a clone() of the module"));
  return std::exchange(memory_, {});
}

void ParameterUnit::empty(const std::string& why) {
  c10::StorageImpl* storage = storage_.unsafeGetStorageImpl();
  allow_pointers(storage_);
  storage->set_data_ptr_noswap(watched_pointer(nullptr, watched_, {}, options_.device()));
  refuse_pointers(storage_, why);
}

void ParameterUnit::slices_written() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].tensor.unsafeGetTensorImpl()->bump_version();
    ++versions_[i];
  }
}

void ParameterUnit::expect_unchanged() const {
  for (size_t i = 0; memory_.defined() && i < parameters_.size(); ++i) {
    TW_EXPECTS(version_of(i) == versions_[i], "parameter ", parameters_[i].name,
               " was changed in place, but its slices keep the old values: change the slices");
  }
}

void ParameterUnit::watch_parameters(bool watched) const {
  for (const NamedTensor& parameter : parameters_) watch(parameter.tensor, watched);
}

void ParameterUnit::expect_in_place() const {
  for (const auto& [name, tensor] : parameters_) {
    TW_EXPECTS(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage_.unsafeGetStorageImpl(), "parameter ", name,
               " was given other values by set_data(), but its slices keep the old values: change the slices");
  }
}

const std::string& ParameterUnit::name_at(int64_t offset) const {
  size_t last = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const int64_t begin = parameters_[i].tensor.storage_offset();
    if (begin <= offset && begin >= parameters_[last].tensor.storage_offset()) last = i;
  }
  return parameters_[last].name;
}

int64_t ParameterUnit::version_of(size_t parameter) const { return parameters_[parameter].tensor._version(); }

}  // namespace tw
