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

  /// Returns a copy with which the operators that autocast covers compute in `type` on devices of `kind`. @throws ContractError if `type` is neither
  /// bfloat16 nor float16, or if LibTorch has no autocast for such devices: operators would silently compute in float32 there.
  AutocastState on(c10::DeviceType kind, c10::ScalarType type) const;
  /// Returns a copy in which autocast is off on all devices. Use it for backward passes: without autocast, they compute in the dtypes of the forward
  /// pass.
  AutocastState off() const;

  /// Whether autocast is on for any kind of device.
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

/// Applies a state to this thread during its lifetime. Construction and destruction clear LibTorch's cache of cast parameters, so that changed
/// parameters are cast again and no cast carries its graph into another run. All threads share the cache, so other threads must cast again, too.
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
