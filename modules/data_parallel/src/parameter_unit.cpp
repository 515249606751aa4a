// SPDX-License-Identifier: Apache-2.0
#include "parameter_unit.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/strides.h>

#include <tw/base/concat.hpp>

namespace tw {

ParameterUnit::ParameterUnit(MemoryOwner* owner, size_t index, std::vector<NamedTensor> parameters, const std::vector<int64_t>& offsets,
                             int64_t numel)
    : watched_(std::make_shared<WatchedMemory>(owner, index)),
      parameters_(std::move(parameters)),
      numel_(numel),
      options_(parameters_.front().tensor.options().requires_grad(false)),
      storage_(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes()), watched(nullptr, watched_, {}, options_.device()), nullptr, false),
      versions_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    const at::Tensor view = at::empty({0}, options_);
    view.unsafeGetTensorImpl()->set_storage_keep_dtype(storage_);
    view.unsafeGetTensorImpl()->set_storage_offset(offsets[i]);
    view.unsafeGetTensorImpl()->set_sizes_and_strides(parameter.sizes(), c10::contiguous_strides(parameter.sizes()));
    parameter.set_data(view);
  }
  release();
}

ParameterUnit::~ParameterUnit() {
  watched_->owner = nullptr;
  fail(concat("parameter ", parameters_.front().name, " was sharded, and what gathered it is gone"));
}

void ParameterUnit::fill(const at::Tensor& memory) {
  memory_ = memory;
  c10::StorageImpl* storage = storage_.unsafeGetStorageImpl();
  storage->clear_data_ptr_access_error_msg_();
  storage->set_data_ptr_noswap(watched(memory.data_ptr(), watched_, {}, options_.device()));
  for (size_t i = 0; i < parameters_.size(); ++i) versions_[i] = version_of(i);
}

at::Tensor ParameterUnit::release() {
  fail(concat("the values of parameter ", parameters_.front().name,
              " and its neighbours are on all ranks in slices: they are here while an operator of LibTorch takes them, and not for pointers"));
  return std::exchange(memory_, {});
}

void ParameterUnit::fail(const std::string& why) {
  c10::StorageImpl* storage = storage_.unsafeGetStorageImpl();
  storage->clear_data_ptr_access_error_msg_();
  storage->set_data_ptr_noswap(watched(nullptr, watched_, {}, options_.device()));
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

std::string ParameterUnit::changed() const {
  for (size_t i = 0; memory_.defined() && i < parameters_.size(); ++i) {
    if (version_of(i) != versions_[i]) return parameters_[i].name;
  }
  return {};
}

int64_t ParameterUnit::version_of(size_t parameter) const { return static_cast<int64_t>(parameters_[parameter].tensor._version()); }

}  // namespace tw
