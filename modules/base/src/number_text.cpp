// SPDX-License-Identifier: Apache-2.0
#include <tw/base/number_text.hpp>

#include <fmt/format.h>

namespace tw {

std::string fixed_text(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

std::string brief_text(double value, int digits) { return fmt::format("{:.{}g}", value, digits); }

std::string scientific_text(double value, int digits) { return fmt::format("{:.{}e}", value, digits); }

std::string hex_text(uint64_t value) { return fmt::format("{:016x}", value); }

std::string padded_text(int64_t value, int digits) { return fmt::format("{:0{}}", value, digits); }

}  // namespace tw
