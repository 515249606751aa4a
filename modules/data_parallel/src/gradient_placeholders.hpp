// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include "operator_watch.hpp"

namespace tw {

/// What `.grad()` of a parameter holds whose gradient is sharded: a tensor of its shape without memory. What takes it throws, and says what to use
/// instead: an optimizer over the parameters, which would train nothing, or clip_grad_norm_(), which would clip nothing.
class GradientPlaceholders final : public MemoryOwner {
 public:
  /// @param instead what to write, for the message
  GradientPlaceholders(const std::vector<NamedTensor>& parameters, std::string instead);
  ~GradientPlaceholders() override;
  GradientPlaceholders(const GradientPlaceholders&) = delete;
  GradientPlaceholders& operator=(const GradientPlaceholders&) = delete;

  /// Becomes `.grad()` of parameter `id`.
  void put(size_t id);
  /// Autograd is about to add to `.grad()`, or somebody to look at it.
  void remove(size_t id);
  /// Whether it was put there and is gone, as by zero_grad() of the module; forgotten then.
  bool was_dropped(size_t id);

  void before_operator(std::span<const Taken> taken, const std::string& op) override;

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
