// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/communicator.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/train/report.hpp>

namespace tw::train {

/// Figures of all ranks' traffic in `time`. Collective.
ServerFigures figures_of(const parameter_server::Traffic& traffic, const Communicator& comm, Seconds time);

}  // namespace tw::train
