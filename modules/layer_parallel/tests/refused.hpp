// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "mpi_test.hpp"

#include <string>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/error.hpp>

namespace tw::layer_parallel {

/// Expects that `f` throws an Error on at least one rank, and that error or the notice of it on every other rank.
template <class Error, class F>
void expect_refused(const F& f, const std::string& text) {
  const torch::Tensor thrown = torch::zeros({}, torch::kLong);
  try {
    f();
    ADD_FAILURE() << "expected: " << text;
  } catch (const RevokedError&) {
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    thrown.fill_(1);
  }
  allreduce(testing::world(), thrown, ReduceOp::sum);
  EXPECT_GE(thrown.item<int64_t>(), 1);
}

}  // namespace tw::layer_parallel
