// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/autocast_mode.h>

#include <array>

namespace tw {

/// This thread's autocast modes at some time, of all kinds of devices.
class AutocastModes {
 public:
  AutocastModes() {
    for (size_t i = 0; i < modes_.size(); ++i) modes_[i] = mode_of(at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i]);
  }

  bool any() const {
    for (const Mode& each : modes_) {
      if (each.enabled) return true;
    }
    return false;
  }

  /// Makes them this thread's.
  void set() const {
    for (size_t i = 0; i < modes_.size(); ++i) {
      const at::DeviceType device = at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i];
      if (mode_of(device) == modes_[i]) continue;
      at::autocast::set_autocast_enabled(device, modes_[i].enabled);
      at::autocast::set_autocast_dtype(device, modes_[i].dtype);
    }
    at::autocast::set_autocast_cache_enabled(cache_enabled_);
  }

 private:
  struct Mode {
    bool enabled = false;
    at::ScalarType dtype = at::kFloat;
    bool operator==(const Mode&) const = default;
  };

  static Mode mode_of(at::DeviceType device) { return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)}; }

  std::array<Mode, at::autocast::_AUTOCAST_SUPPORTED_DEVICES.size()> modes_;
  bool cache_enabled_ = at::autocast::is_autocast_cache_enabled();
};

/// Modes of this thread for a while, during which weights are cast anew, and the casts are forgotten afterwards: those of another run have the graph
/// of that run.
class AutocastGuard {
 public:
  explicit AutocastGuard(const AutocastModes& modes) : any_(modes.any()) {
    modes.set();
    if (!any_) return;
    at::autocast::increment_nesting();
    at::autocast::clear_cache();
  }
  ~AutocastGuard() {
    before_.set();
    if (!any_) return;
    at::autocast::decrement_nesting();
    at::autocast::clear_cache();
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  AutocastModes before_;
  bool any_;
};

}  // namespace tw
