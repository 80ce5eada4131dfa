#!/bin/sh
echo "no fields"
