#pragma once
#define NAME "matrix"
