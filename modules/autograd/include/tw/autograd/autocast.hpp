// SPDX-License-Identifier: Apache-2.0
// LibTorch's autocast, under which operators compute in a smaller type than the one that parameters have.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>

namespace tw {

/// What autocast does on a thread, on all kinds of devices. A value.
class AutocastState {
 public:
  /// What is in force on this thread.
  static AutocastState here();

  /// The same, but on devices of `kind` the operators that LibTorch supports there compute in `type`. @throws ContractError where LibTorch has no
  /// autocast of `type` on such devices: operators would silently continue in float32.
  AutocastState on(c10::DeviceType kind, c10::ScalarType type) const;
  /// On no device. For backward passes: autograd computes in the types of the forward pass by itself.
  AutocastState off() const;

  /// On any device.
  bool is_on() const noexcept;
  bool operator==(const AutocastState&) const = default;

 private:
  friend class AutocastScope;
  static constexpr size_t max_kinds = 16;  // of devices that LibTorch knows it for

  void set() const;

  std::array<bool, max_kinds> on_{};
  std::array<c10::ScalarType, max_kinds> types_{};
  bool keeps_casts_ = true;
};

/// Applies a state to this thread while it lives. At its beginning and its end LibTorch's cached casts of parameters are cleared, so that no
/// parameter change is missed, and no graph is used for another run; the casts of other threads are cleared too, which costs them a cast each.
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
