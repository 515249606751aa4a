// SPDX-License-Identifier: Apache-2.0
// LibTorch's autocast, which runs operators in a smaller dtype than that of the parameters.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>

namespace tw {

/// A thread's autocast settings, for all kinds of devices. A value.
class AutocastState {
 public:
  /// This thread's current settings.
  static AutocastState here();

  /// The same, but on devices of `kind` the operators that autocast covers compute in `type`. @throws ContractError if LibTorch has no autocast to
  /// `type` on such devices: operators would silently continue in float32.
  AutocastState on(c10::DeviceType kind, c10::ScalarType type) const;
  /// The same, switched off on all devices. Use it for backward passes: autograd computes in the dtypes of the forward pass by itself.
  AutocastState off() const;

  /// Whether it is on for any kind of device.
  bool is_on() const noexcept;
  bool operator==(const AutocastState&) const = default;

 private:
  friend class AutocastScope;
  static constexpr size_t max_kinds = 16;  // kinds of devices with autocast

  void set() const;

  std::array<bool, max_kinds> on_{};
  std::array<c10::ScalarType, max_kinds> types_{};
  bool keeps_casts_ = true;
};

/// Applies a state to this thread during its lifetime. Construction and destruction clear LibTorch's cached casts of parameters, so that parameter
/// changes take effect and no graph is used in another run. This clears other threads' casts too, which costs them a cast each.
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& state);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_;
};

}  // namespace tw
