// SPDX-License-Identifier: Apache-2.0
// What MPI tests share. Every rank runs every test; EXPECT_* may fail on one rank alone, and all ranks go on to the end of the
// test together. Use ASSERT_* only where all ranks fail alike, or the others wait for this one.
#pragma once
#include <gtest/gtest.h>

#include <tw/mpi.hpp>

namespace tw::testing {

/// All ranks of this run.
const Communicator& world();

}  // namespace tw::testing
