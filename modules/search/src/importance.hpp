// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/search/ledger.hpp>
#include <vector>

namespace tw::search {

/// How much of the spread of losses each parameter explains by itself: the share of the variance of the losses' ranks that lies between the means of
/// bins of its values, less what chance alone would put there (epsilon squared = (between - (bins - 1) within / (n - bins)) / total, at least 0).
/// Values of choices and few whole numbers are bins, others are dealt to bins of equal numbers of trials; "does not exist" is one.
///
/// Shares need not sum to 1: what parameters do together, and noise, is in none; what parameters that went together explain is in all of these.
/// @return by parameter; empty with fewer than 20 trials that count, or where all losses are equal
/// Ref: first-order effects of a functional ANOVA, Hutter, Hoos & Leyton-Brown 2014, estimated from data as it is as in Plischke, Borgonovo & Smith
/// 2013; epsilon squared, Kelley 1935.
std::vector<double> importance(const Ledger& ledger, const Space& space);

}  // namespace tw::search
