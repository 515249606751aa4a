// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <string>
#include <tw/base/exact_text.hpp>
#include <tw/base/number_text.hpp>

namespace tw::search {

/// exact_text() of a finite value; empty for others.
inline std::string finite_text(double value) { return std::isfinite(value) ? exact_text(value) : std::string(); }

}  // namespace tw::search
