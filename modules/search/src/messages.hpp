// SPDX-License-Identifier: Apache-2.0
// Messages between workers.
#pragma once
#include <cstdint>
#include <limits>
#include <tuple>
#include <tw/evolution/individual.hpp>
#include <tw/evolution/stopping.hpp>
#include <variant>
#include <vector>

#include "bytes.hpp"

namespace tw::search {

/// An individual ended on this island, or came to it, and counts there from now on.
struct ResultMessage {
  Individual individual;
  static constexpr auto fields = std::tuple(&ResultMessage::individual);
};

/// The trial no longer counts on this island.
struct DepartureMessage {
  int64_t trial = -1;
  int32_t moves = 0;
  static constexpr auto fields = std::tuple(&DepartureMessage::trial, &DepartureMessage::moves);
};

/// An individual comes to another island. Sent to the worker that becomes responsible for it.
struct ImmigrantMessage {
  Individual individual;
  bool replaces = false;  ///< it is a copy, and replaces another individual
  static constexpr auto fields = std::tuple(&ImmigrantMessage::individual, &ImmigrantMessage::replaces);
};

/// A report of a running trial.
struct ReportMessage {
  Report report;
  static constexpr auto fields = std::tuple(&ReportMessage::report);
};

/// Requests a part of the quota.
struct QuotaRequest {
  static constexpr auto fields = std::tuple();
};
struct QuotaResponse {
  int64_t evaluations = 0;
  static constexpr auto fields = std::tuple(&QuotaResponse::evaluations);
};

/// Requests the tensors of `original`, which `trial` is to copy.
struct StateRequest {
  int64_t original = -1;
  int64_t trial = -1;
  static constexpr auto fields = std::tuple(&StateRequest::original, &StateRequest::trial);
};
/// The tensors follow, and belong to these values. No values: the original has ended, and no tensors follow.
struct StateResponse {
  int64_t trial = -1;
  std::vector<double> values = {};
  static constexpr auto fields = std::tuple(&StateResponse::trial, &StateResponse::values);
};

/// The number of turns that are over, see Turns.
struct TurnMessage {
  int64_t over = 0;
  static constexpr auto fields = std::tuple(&TurnMessage::over);
};

/// The search is over.
struct StopMessage {
  static constexpr auto fields = std::tuple();
};

/// Progress of a worker, for the progress line.
struct StatusMessage {
  int64_t evaluations = 0;
  double busy_s = 0;
  double best = std::numeric_limits<double>::infinity();
  static constexpr auto fields = std::tuple(&StatusMessage::evaluations, &StatusMessage::busy_s, &StatusMessage::best);
};

using Message = std::variant<ResultMessage, DepartureMessage, ImmigrantMessage, ReportMessage, QuotaRequest, QuotaResponse, StateRequest,
                             StateResponse, TurnMessage, StopMessage, StatusMessage>;

void put(Bytes& bytes, const Message& message);
/// Makes the reader fail if there is no valid message.
Message get_message(ByteReader& reading);

}  // namespace tw::search
