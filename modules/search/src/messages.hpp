// SPDX-License-Identifier: Apache-2.0
// What workers tell each other.
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

/// An individual that ended, or came to the island: it counts there.
struct ResultMessage {
  Individual individual;
  static constexpr auto fields = std::tuple(&ResultMessage::individual);
};

/// It counts on this island no more.
struct DepartureMessage {
  int64_t trial = -1;
  int32_t moves = 0;
  static constexpr auto fields = std::tuple(&DepartureMessage::trial, &DepartureMessage::moves);
};

/// To the worker that is to answer for it.
struct ImmigrantMessage {
  Individual individual;
  bool replaces = false;  ///< it is a copy, and takes another's place
  static constexpr auto fields = std::tuple(&ImmigrantMessage::individual, &ImmigrantMessage::replaces);
};

/// Of a running trial.
struct ReportMessage {
  Report report;
  static constexpr auto fields = std::tuple(&ReportMessage::report);
};

/// For a part of the quota.
struct QuotaRequest {
  static constexpr auto fields = std::tuple();
};
struct QuotaResponse {
  int64_t evaluations = 0;
  static constexpr auto fields = std::tuple(&QuotaResponse::evaluations);
};

/// For what `original` carries, to be copied by `trial`.
struct StateRequest {
  int64_t original = -1;
  int64_t trial = -1;
  static constexpr auto fields = std::tuple(&StateRequest::original, &StateRequest::trial);
};
/// It comes, and belongs to these values; no values: there is none.
struct StateResponse {
  int64_t trial = -1;
  std::vector<double> values = {};
  static constexpr auto fields = std::tuple(&StateResponse::trial, &StateResponse::values);
};

/// So many turns of trials that are tried again one after another are over.
struct TurnMessage {
  int64_t over = 0;
  static constexpr auto fields = std::tuple(&TurnMessage::over);
};

/// The search is over.
struct StopMessage {
  static constexpr auto fields = std::tuple();
};

/// How far a worker has come, for the progress line.
struct StatusMessage {
  int64_t evaluations = 0;
  double busy_s = 0;
  double best = std::numeric_limits<double>::infinity();
  static constexpr auto fields = std::tuple(&StatusMessage::evaluations, &StatusMessage::busy_s, &StatusMessage::best);
};

using Message = std::variant<ResultMessage, DepartureMessage, ImmigrantMessage, ReportMessage, QuotaRequest, QuotaResponse, StateRequest,
                             StateResponse, TurnMessage, StopMessage, StatusMessage>;

void put(Bytes& bytes, const Message& message);
/// Makes the reading bad where there is none.
Message get_message(ByteReader& reading);

}  // namespace tw::search
