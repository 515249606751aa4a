// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/memory_use.hpp>

#include <numeric>
#include <ranges>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

namespace tw {

const char* name_of(MemoryUse use) {
  switch (use) {
    case MemoryUse::parameters: return "parameters";
    case MemoryUse::gradients: return "gradients";
    case MemoryUse::optimizer: return "optimizer";
    case MemoryUse::buffers: return "buffers";
    case MemoryUse::activations: break;
  }
  return "activations";
}

int64_t MemoryByUse::together() const noexcept { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

std::string MemoryByUse::describe() const {
  const auto text_of = [&](size_t use) {
    return concat(name_of(static_cast<MemoryUse>(use)), ' ', fixed_text(static_cast<double>(bytes[use]) / (1 << 20), 1));
  };
  return joined(std::views::iota(size_t{0}, memory_uses), ", ", text_of);
}

}  // namespace tw
