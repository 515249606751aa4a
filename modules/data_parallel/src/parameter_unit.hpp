// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include "operator_watch.hpp"

namespace tw {

/// Parameters that are gathered and released together: views of one storage, which is empty while they are released. Who saved one of them or a view
/// of it, such as autograd, has the same storage, and finds it filled again.
class ParameterUnit {
 public:
  /// The parameters become views of the storage, which is empty. @param offsets by parameter, elements from the start. @param numel, options of the
  /// storage
  ParameterUnit(MemoryOwner* owner, size_t index, std::vector<NamedTensor> parameters, const std::vector<int64_t>& offsets, int64_t numel,
                const at::TensorOptions& options);
  ~ParameterUnit();
  ParameterUnit(const ParameterUnit&) = delete;
  ParameterUnit& operator=(const ParameterUnit&) = delete;

  const std::vector<NamedTensor>& parameters() const noexcept { return parameters_; }
  int64_t numel() const noexcept { return numel_; }
  const at::TensorOptions& options() const noexcept { return options_; }
  int64_t bytes() const noexcept { return numel_ * static_cast<int64_t>(options_.dtype().itemsize()); }

  /// Its values lie in `memory`, shape [numel()], from now on. @param watched whether operators that take parameters are still heard of
  void fill(const at::Tensor& memory, bool watched = true);
  /// Undefined while it is released.
  const at::Tensor& memory() const noexcept { return memory_; }
  /// @return the memory, which is free now
  at::Tensor release();
  /// The slices were written: graphs that have saved a parameter cannot be run any more, as LibTorch finds by its version.
  void slices_written();
  /// @throws ContractError naming a parameter that was changed in place since fill().
  void expect_unchanged() const;
  /// @throws ContractError naming a parameter that has other memory now.
  void expect_in_place() const;
  /// Of the parameter that element `offset` of the storage is of.
  const std::string& name_at(int64_t offset) const;
  void watch_parameters(bool watched) const;

 private:
  /// Who takes the storage gets an error that says `why`.
  void empty(const std::string& why);
  int64_t version_of(size_t parameter) const;

  std::shared_ptr<WatchedMemory> watched_;
  std::vector<NamedTensor> parameters_;
  int64_t numel_;
  at::TensorOptions options_;
  c10::Storage storage_;
  at::Tensor memory_;
  std::vector<int64_t> versions_;  // of the parameters, at fill()
};

}  // namespace tw
