// SPDX-License-Identifier: Apache-2.0
#include <tw/autograd/autocast.hpp>

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw {
namespace {

const auto& kinds() { return at::autocast::_AUTOCAST_SUPPORTED_DEVICES; }

bool has_autocast(c10::DeviceType kind) {
  if (!at::autocast::is_autocast_available(kind)) return false;
  const auto linear = c10::Dispatcher::singleton().findSchema({"aten::linear", ""});
  return linear && linear->hasKernelForDispatchKey(at::autocast::get_autocast_dispatch_key_from_device_type(kind));
}

}  // namespace

AutocastState AutocastState::here() {
  static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(kinds())>> <= max_kinds);
  AutocastState state;
  for (size_t i = 0; i < kinds().size(); ++i) {
    state.on_[i] = at::autocast::is_autocast_enabled(kinds()[i]);
    state.types_[i] = at::autocast::get_autocast_dtype(kinds()[i]);
  }
  state.keeps_casts_ = at::autocast::is_autocast_cache_enabled();
  return state;
}

AutocastState AutocastState::on(c10::DeviceType kind, c10::ScalarType type) const {
  TW_EXPECTS(type == c10::kBFloat16 || type == c10::kHalf, "operators compute in bfloat16 or float16 under autocast, not in ", toString(type));
  TW_EXPECTS(has_autocast(kind), "LibTorch has no autocast for devices of kind ", c10::DeviceTypeName(kind, /*lower_case=*/true),
             ": compute in float32 there");
  AutocastState state = *this;
  const auto found = std::ranges::find(kinds(), kind);
  const auto i = static_cast<size_t>(found - kinds().begin());
  state.on_[i] = true;
  state.types_[i] = type;
  return state;
}

AutocastState AutocastState::off() const {
  AutocastState state = *this;
  state.on_ = {};
  return state;
}

bool AutocastState::is_on() const noexcept { return std::ranges::find(on_, true) != on_.end(); }

void AutocastState::set() const {
  for (size_t i = 0; i < kinds().size(); ++i) {
    at::autocast::set_autocast_enabled(kinds()[i], on_[i]);
    at::autocast::set_autocast_dtype(kinds()[i], types_[i]);
  }
  at::autocast::set_autocast_cache_enabled(keeps_casts_);
}

AutocastScope::AutocastScope(const AutocastState& state) : before_(AutocastState::here()) {
  at::autocast::clear_cache();
  state.set();
}

AutocastScope::~AutocastScope() {
  before_.set();
  at::autocast::clear_cache();
}

}  // namespace tw
