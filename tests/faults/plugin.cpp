// SPDX-License-Identifier: Apache-2.0
// A plug-in with a static copy of Torchweave of its own: see two_copies.cpp.
#include <tw/mpi/environment.hpp>

extern "C" void start() { static const auto mpi = tw::Environment::adopt(); }
