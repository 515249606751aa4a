// SPDX-License-Identifier: Apache-2.0
// In a build without SQLite, in place of ../sqlite.cpp: nothing.
