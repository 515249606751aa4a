// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/autograd/operator_watch.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Parameters that are gathered and released together: views of one storage, which is empty while released. Whatever saved a parameter or a view of
/// it, such as autograd, shares that storage and finds it filled again.
class ParameterUnit {
 public:
  /// Turns the parameters into views of an empty storage. @param offsets by parameter, in elements. @param numel, options of the storage
  ParameterUnit(MemoryOwner* owner, size_t index, std::vector<NamedTensor> parameters, const std::vector<int64_t>& offsets, int64_t numel,
                const at::TensorOptions& options);
  ~ParameterUnit();
  ParameterUnit(const ParameterUnit&) = delete;
  ParameterUnit& operator=(const ParameterUnit&) = delete;

  const std::vector<NamedTensor>& parameters() const noexcept { return parameters_; }
  int64_t numel() const noexcept { return numel_; }
  const at::TensorOptions& options() const noexcept { return options_; }
  int64_t bytes() const noexcept { return numel_ * static_cast<int64_t>(options_.dtype().itemsize()); }

  /// Places the values in `memory`, shape [numel()]. @param watched whether operators on the parameters still report to the owner
  void fill(const at::Tensor& memory, bool watched = true);
  /// Undefined while released.
  const at::Tensor& memory() const noexcept { return memory_; }
  /// @return the memory, now unused
  at::Tensor release();
  /// Call when a slice was written. Bumps the versions, so that LibTorch rejects graphs that saved a parameter.
  void slices_written();
  /// @throws ContractError naming a parameter changed in place since fill().
  void expect_unchanged() const;
  /// @throws ContractError naming a parameter whose memory was replaced.
  void expect_in_place() const;
  /// Name of the parameter at element `offset` of the storage.
  const std::string& name_at(int64_t offset) const;
  void watch_parameters(bool watched) const;

 private:
  /// From now on, taking a pointer to the storage fails with the message `why`.
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
