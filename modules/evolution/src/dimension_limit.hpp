// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/contract.hpp>
#include <tw/evolution/space.hpp>

namespace tw::search {

/// For methods whose memory is quadratic in the number of dimensions. @throws ContractError for a space with more than `most` dimensions
inline void expect_few_dimensions(const Space& space, size_t most, const char* who) {
  TW_EXPECTS(space.dimensions() <= most, who, " supports ", most, " dimensions at most, but the space has ", space.dimensions(),
             ", where each choice counts as one; genetic search, TPE and swarms support any number");
}

}  // namespace tw::search
