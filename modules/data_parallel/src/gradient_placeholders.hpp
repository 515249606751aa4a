// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <tw/autograd/operator_watch.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Stand-ins for the `.grad()` of parameters whose gradients are sharded: tensors of the same shape without memory. Using one throws an error that
/// names the alternative. Otherwise an optimizer over the parameters would train nothing, and clip_grad_norm_() would clip nothing.
class GradientPlaceholders final : public MemoryOwner {
 public:
  /// @param instead what to use instead, for the message
  GradientPlaceholders(const std::vector<NamedTensor>& parameters, std::string instead);
  ~GradientPlaceholders() override;
  GradientPlaceholders(const GradientPlaceholders&) = delete;
  GradientPlaceholders& operator=(const GradientPlaceholders&) = delete;

  /// Sets `.grad()` of parameter `id` to its placeholder.
  void put(size_t id);
  /// Clears the placeholder, before autograd adds to `.grad()` or a caller reads it.
  void remove(size_t id);
  /// Whether the placeholder was put and has been dropped since, e.g. by the module's zero_grad(). Returns true once per drop.
  bool was_dropped(size_t id);

  void before_operator(std::span<const WatchedArgument> arguments, const std::string& op) override;

 private:
  bool is_there(size_t id) const;

  struct Placeholder {
    std::shared_ptr<WatchedMemory> memory;
    at::Tensor tensor;
    bool is_put = false;
  };
  const std::vector<NamedTensor> parameters_;
  const std::string instead_;
  std::vector<Placeholder> placeholders_;  // by parameter
};

}  // namespace tw
